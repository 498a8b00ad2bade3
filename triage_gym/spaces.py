"""The observation and action space of text environments.

``gymnasium.spaces.Text`` rejects newlines, "é" and the empty string by default, is unusable with a full Unicode
charset (seconds to build, tens of megabytes to pickle) and silently corrupts text through the shared memory of
``AsyncVectorEnv``. :class:`UnicodeText` holds any ``str`` up to a length, and refuses shared memory with a clear error.
"""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Space

_SAMPLE_ALPHABET = "abcdefghijklmnopqrstuvwxyz "


class UnicodeText(Space[str]):
    """Any Python string of at most ``max_length`` code points.

    Args:
        max_length: The longest string, in code points, that the space contains.
        seed: Seed of :meth:`sample`.

    Raises:
        ValueError: If ``max_length`` is not positive.
    """

    def __init__(self, max_length: int = 1 << 20, *, seed: int | None = None) -> None:
        if max_length <= 0:
            raise ValueError(f"Expected `max_length` to be positive, got {max_length}")
        self.max_length = int(max_length)
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Text has no array form."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A random string of lowercase letters and spaces, up to 32 long."""
        if mask is not None or probability is not None:
            raise ValueError("Expected no `mask` and no `probability`: UnicodeText samples without either; drop them")
        length = int(self.np_random.integers(1, min(32, self.max_length) + 1))
        letters = self.np_random.integers(len(_SAMPLE_ALPHABET), size=length)
        return "".join(_SAMPLE_ALPHABET[int(i)] for i in letters)

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a string of at most ``max_length`` code points."""
        return isinstance(x, str) and len(x) <= self.max_length

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash((UnicodeText, self.max_length))
