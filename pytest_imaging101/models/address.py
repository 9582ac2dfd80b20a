"""Where a model is reached and with which key: base_url made usable, the key checked and kept out of texts."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pytest_imaging101.faults import KeyRefused, UsageError
from pytest_imaging101.models.base import ModelSettings

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_FOR_LOOPBACK = "no-key"
_PATH = "/chat/completions"
_SHORTEST_SECRET = 8


@dataclass(frozen=True)
class Address:
    """One model at one endpoint, ready to be called. ``base_url`` may hold a password; ``url`` never does."""

    base_url: str = field(repr=False)
    model: str
    key: str = field(repr=False)

    @classmethod
    def of(cls, settings: ModelSettings) -> Address:
        """Raises UsageError for an unusable base_url, KeyRefused for an unusable or missing key."""
        base_url = normalised(settings.base_url)
        return cls(base_url=base_url, model=settings.name, key=_checked_key(settings, base_url))

    @property
    def url(self) -> str:
        """The address requests go to, as sentences print it."""
        return without_secrets(self.base_url + _PATH)

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.base_url)

    def scrub(self, text: str) -> str:
        """The text without the key, should an endpoint have echoed it."""
        secrets = (self.key, urlsplit(self.base_url).password or "")
        for secret in secrets:
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, "[key]")
        return text


def normalised(base_url: str | None) -> str:
    """base_url without spaces, trailing slashes and one ``/chat/completions``. Nothing is ever added.

    None and blank mean OpenAI's own. Raises UsageError where it is no http(s) address, or holds a query.
    """
    url = (base_url or "").strip() or DEFAULT_BASE_URL
    url = url.rstrip("/").removesuffix(_PATH).rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "?" in url or "#" in url or any(character.isspace() for character in url):
        shown = re.sub(r"(?<=//)[^/@]*@|(?<=[?#]).*", "", url)
        raise UsageError(
            f"base_url is {shown!r}, which is no plain http(s) address; "
            "write it like http://localhost:8000/v1 in --base-url, BASE_URL or config_llm.yaml"
        )
    return url


def is_loopback(url: str) -> bool:
    """Whether the address is this machine's own, which no proxy can reach and which needs no key."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def without_secrets(url: str) -> str:
    """The address without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _checked_key(settings: ModelSettings, base_url: str) -> str:
    key = (settings.api_key or "").strip()
    where = "API_KEY, --api-key or config_llm.yaml"
    if not key:
        if is_loopback(base_url):
            return KEY_FOR_LOOPBACK
        raise KeyRefused(
            f"no API key is given for model {settings.name!r} at {without_secrets(base_url)}; set {where} "
            "(any word where the server needs none)"
        )
    wrong = next((place for place, letter in enumerate(key) if not "!" <= letter <= "~"), None)
    if wrong is not None:
        raise KeyRefused(
            f"the API key for model {settings.name!r} holds a space or a character that no key has, at position "
            f"{wrong + 1} of {len(key)}; copy it again into {where}"
        )
    return key
