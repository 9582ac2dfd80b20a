"""The few named errors, each a sentence with the URL, what came and what to do; and whether to try again."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from pytest_imaging101.faults import BadReply, EndpointFault, KeyRefused, ModelNotFound, QuotaSpent
from pytest_imaging101.models.address import Address
from pytest_imaging101.models.base import ContextOverflow, Refused
from pytest_imaging101.models.kinds import Kind, kind_of
from pytest_imaging101.models.rejections import Rejection, one_line
from pytest_imaging101.models.text import clean


class Retry(StrEnum):
    """Which retry budget a trouble draws on."""

    NEVER = "never"
    FAULT = "fault"
    RATE = "rate"
    BAD_REPLY = "bad_reply"


@dataclass(eq=False)
class Trouble(Exception):
    """One try failed: what to raise once its retries are spent, and what the endpoint asks to wait."""

    error: Exception
    retry: Retry = Retry.NEVER
    wait_seconds: float | None = None


def trouble_of(rejection: Rejection, address: Address, wait_seconds: float | None) -> Trouble:
    """The error that a rejection amounts to, as a sentence with the URL, what came and what to do."""
    kind, said, url = kind_of(rejection), rejection.brief, address.url
    fault = EndpointFault
    retry = Retry.NEVER
    if kind is Kind.FILTERED:
        return Trouble(Refused(f"{url}: the content filter refused the prompt ({said})"))
    if kind is Kind.OVERFLOW:
        return Trouble(ContextOverflow(f"{url}: the messages do not fit the model's window ({said})"))
    if kind is Kind.KEY:
        fault = KeyRefused
        sentence = f"{url} refuses the API key ({said}); check API_KEY, --api-key or config_llm.yaml"
    elif kind is Kind.MODEL:
        fault = ModelNotFound
        sentence = f"{url} knows no model {address.model!r} ({said}); check --model and --base-url"
    elif kind is Kind.ADDRESS:
        sentence = f"{url} takes no chat completions ({said}); check --base-url, which often ends in /v1"
    elif kind is Kind.QUOTA:
        fault = QuotaSpent
        sentence = (
            f"{url}: the account's quota is spent ({said}); top it up or use another key, then --resume"
        )
    elif kind is Kind.RATE:
        retry = Retry.RATE
        sentence = f"{url} limits the rate ({said}); run fewer attempts at once, then --resume"
    elif kind is Kind.TRANSIENT:
        retry = Retry.FAULT
        sentence = f"{url} fails ({said}); try again later with --resume"
    else:
        sentence = f"{url} refuses the request ({said}); check the model's settings in config_llm.yaml"
    return Trouble(fault(sentence, evidence=f"HTTP {rejection.status} {rejection.text}"), retry, wait_seconds)


def bad_reply(address: Address, what: str, raw: str, *, retry: Retry = Retry.BAD_REPLY) -> Trouble:
    """An answer with status 200 that is no chat completion."""
    seen = one_line(raw, 200)
    sentence = f"{address.url} answered with {what}, not a chat completion; check --base-url" + (
        f" (it begins: {seen})" if seen else ""
    )
    return Trouble(BadReply(sentence, evidence=clean(raw[:4000])), retry)


def broken_connection(error: Exception, address: Address) -> Trouble:
    """The endpoint could not be reached, or the connection broke before the reply was whole."""
    chain = list(_causes(error))
    retry = Retry.FAULT
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in chain):
        retry = Retry.NEVER
        sentence = f"the certificate of {address.url} is not trusted; set SSL_CERT_FILE to its authority's"
    elif any(isinstance(cause, socket.gaierror) for cause in chain):
        sentence = f"the host of {address.url} is not found; check --base-url and the network"
    elif any(isinstance(cause, ConnectionRefusedError) for cause in chain):
        sentence = f"nothing answers at {address.url}; is the server started? check --base-url"
    else:
        silent = next((name for cause in chain if "Timeout" in (name := type(cause).__name__)), "")
        broke = f"{address.url} is silent ({silent})" if silent else f"the connection to {address.url} broke"
        hint = (
            "is the server overloaded?"
            if address.is_loopback
            else "check the network and the proxy variables"
        )
        sentence = f"{broke}: {one_line(str(chain[-1]), 120)}; {hint}"
    evidence = " <- ".join(f"{type(cause).__name__}: {cause}" for cause in chain)
    return Trouble(EndpointFault(sentence, evidence=address.scrub(evidence)), retry)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, groups included."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    elif cause := error.__cause__ or error.__context__:
        yield from _causes(cause)
