"""The packages whose versions count, by the names under which they are installed, and how Python imports them."""

from packaging.utils import canonicalize_name

COMPANIONS = ("onnxscript", "onnx-ir", "onnx", "onnxruntime", "protobuf", "numpy")
"""What an ONNX file is made, written and run with, beside torch and transformers."""

PACKAGES = ("torch", "transformers", *COMPANIONS)
"""Every package that the plan, the report and the commands know."""

_MODULES = {"protobuf": "google.protobuf"}
"""Packages that are imported by another name than their own."""

_BUILDS = {
    "onnx": ("onnx-weekly",),
    "onnxruntime": (
        "onnxruntime-gpu",
        "onnxruntime-directml",
        "onnxruntime-openvino",
        "onnxruntime-qnn",
        "ort-nightly",
    ),
}
"""Packages that bring the same modules as the one that a requirement names."""


def module_of(package: str) -> str:
    """Return the name by which a package is imported.

    >>> module_of("onnx-ir"), module_of("protobuf")
    ('onnx_ir', 'google.protobuf')
    """
    return _MODULES.get(package, package.replace("-", "_"))


def package_of(module: str) -> str:
    """Return the package that has a module.

    >>> package_of("onnx_ir.traversal"), package_of("google.protobuf.message")
    ('onnx-ir', 'protobuf')
    """
    for package, name in _MODULES.items():
        if module == name or module.startswith(f"{name}."):
            return package
    return str(canonicalize_name(module.partition(".")[0]))


def builds_of(package: str) -> tuple[str, ...]:
    """Return the names under which a package may be installed, its own first."""
    return (package, *_BUILDS.get(package, ()))
