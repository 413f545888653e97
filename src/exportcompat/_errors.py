"""The errors by which a command says that it worked and that something is not right."""

from exportcompat.registry import ExportCompatError


class MismatchError(ExportCompatError):
    """A file is not right, or there is none."""


class AlarmError(ExportCompatError):
    """Something does not fit any more; the message is a summary."""
