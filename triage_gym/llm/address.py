"""Addresses of endpoints: which are ones, and which are reached with nothing in between."""

from __future__ import annotations

import os
import urllib.request
from typing import Final
from urllib.parse import SplitResult, urlsplit

from gymnasium import logger

from triage_gym.errors import InputError

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_ODD: Final = ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS", "OPENAI_LOG")
"""Variables that the ``openai`` package heeds and a plain connection does not."""


def check_url(url: str, has_key: bool, name: str = "base_url") -> None:
    """Refuse what is no address, before anything waits for it; warn where a key would go unencrypted.

    Args:
        url: Where the endpoint is said to be.
        has_key: Whether a key is sent there.
        name: What says so.

    Raises:
        InputError: For another form than ``http://localhost:8000/v1``; a password in it is not repeated.
    """
    if isinstance(url, str) and "@" in url:
        raise InputError(f"Expected {name} without a user and a password; put the key into the environment variable")
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"Expected {name} to be like http://localhost:8000/v1, got {url!r:.80}")
    if parts.scheme == "http" and has_key and parts.hostname not in _LOOPBACK:
        logger.warn("%s", f"The key goes to {parts.hostname} unencrypted; use https or unset the variable")


def plain(base_url: str) -> bool:
    """Whether ``base_url`` is reached without TLS, proxies, and odd settings."""
    parts = urlsplit(base_url)
    if parts.scheme != "http" or parts.query or parts.fragment or any(os.environ.get(name) for name in _ODD):
        return False
    proxies = urllib.request.getproxies()
    proxied = proxies.get("http") or proxies.get("all")
    return not proxied or bool(urllib.request.proxy_bypass(parts.hostname or ""))


def _split(url: object) -> SplitResult | None:
    """The parts of ``url``; None where a connection would fail on it."""
    if not isinstance(url, str) or not url.isascii() or not url.isprintable() or " " in url:
        return None
    try:
        parts = urlsplit(url)
        usable = parts.port != 0  # which also looks whether the port is a number below 65536
    except ValueError:
        return None
    return parts if usable else None
