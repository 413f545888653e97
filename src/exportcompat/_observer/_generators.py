"""The generators of random numbers that torch has."""

from exportcompat._extras import require


def random_states() -> list[bytes]:
    """Return the states of torch's generators, which are others after a number has been drawn."""
    torch = require("torch", "torch")
    states = [torch.random.get_rng_state()]
    states += torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [state.numpy().tobytes() for state in states]
