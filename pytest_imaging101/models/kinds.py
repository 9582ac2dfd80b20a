"""What a rejection means: structured fields first, then a short list of phrases, then the status."""

from __future__ import annotations

import re
from enum import StrEnum

from pytest_imaging101.models.rejections import Rejection


class Kind(StrEnum):
    """What a rejection means."""

    KEY = "key"
    MODEL = "model"
    ADDRESS = "address"
    QUOTA = "quota"
    FILTERED = "filtered"
    OVERFLOW = "overflow"
    RATE = "rate"
    TRANSIENT = "transient"
    REQUEST = "request"


_CODE_NAMES = {
    Kind.FILTERED: """content_filter content_policy_violation responsibleaipolicyviolation data_inspection_failed
        content_moderation moderation_blocked prohibited_content content_blocked""",
    Kind.QUOTA: """insufficient_quota billing_hard_limit_reached billing_not_active insufficient_balance
        insufficient_funds insufficient_credits credit_balance_too_low exceeded_current_quota_error
        billing_error quota_exhausted""",
    Kind.OVERFLOW: """context_length_exceeded exceed_context_size_error context_window_exceeded request_too_large
        model_context_window_exceeded context_size_exceeded""",
    Kind.KEY: """invalid_api_key api_key_invalid authentication_error invalid_authentication_error
        unauthorized unauthenticated permission_denied""",
    Kind.MODEL: "model_not_found model_not_exist unknown_model invalid_model",
    Kind.RATE: """rate_limit_exceeded rate_limit_error rate_limit_reached_error too_many_requests
        resource_exhausted throttling""",
}
_CODES = {kind: frozenset(names.split()) for kind, names in _CODE_NAMES.items()}

_PHRASES = {
    Kind.FILTERED: r"content (management|moderation|filter|policy)|content_filter|safety system|flagged by",
    Kind.OVERFLOW: r"context[ _](length|window|size)|(prompt|input) is too long|too many (input )?tokens"
    r"|reduce the length of|input token count|prompt \(.{0,40}\) is too long",
    Kind.QUOTA: r"\b(daily|monthly|weekly)\b.{0,30}\b(quota|limit|allowance)"
    r"|(quota|limit) (for|per) (the |this )?(day|month)"
    r"|insufficient (account )?(balance|credit|fund|quota)|credit balance|out of credits|billing hard limit",
    Kind.KEY: r"(invalid|incorrect|expired|missing|unknown) api[ _-]?key"
    r"|api[ _-]?key (is |was )?(not (found|valid)|invalid|missing|expired|required)",
    Kind.MODEL: r"model\b.{0,120}\b(not found|(does )?not exist)|(no such|unknown) model|not a valid model",
}
_TEXTS = {kind: re.compile(pattern) for kind, pattern in _PHRASES.items()}


def kind_of(rejection: Rejection) -> Kind:
    """Structured fields first, then a short list of phrases, then the status."""
    status, text = rejection.status, rejection.text.casefold()
    if status == 413:
        return Kind.OVERFLOW
    for kind, codes in _CODES.items():
        if codes & rejection.codes:
            return _or_quota(kind, rejection)
    if isinstance(rejection.fields.get("n_ctx"), int):
        return Kind.OVERFLOW
    worded = status is None or status < 500 or status in (500, 501)
    if worded and not rejection.is_page:
        for kind, pattern in _TEXTS.items():
            if pattern.search(text):
                return kind
    return _or_quota(_by_status(status, text), rejection)


def _or_quota(kind: Kind, rejection: Rejection) -> Kind:
    """A rate limit that counts by the day, or a spent plan without a word on when to retry, is a quota."""
    if kind is not Kind.RATE:
        return kind
    text = rejection.text.casefold()
    by_day = "perday" in str(rejection.fields).casefold()
    plan_spent = "current quota" in text and "retry" not in text and "retryDelay" not in str(rejection.fields)
    return Kind.QUOTA if by_day or plan_spent else kind


def _by_status(status: int | None, text: str) -> Kind:
    if status is None or status in (408, 409, 425) or status >= 500:
        return Kind.TRANSIENT
    if status == 404:
        return Kind.MODEL if "model" in text else Kind.ADDRESS
    known = {401: Kind.KEY, 403: Kind.KEY, 402: Kind.QUOTA, 405: Kind.ADDRESS, 429: Kind.RATE}
    return known.get(status, Kind.ADDRESS if status < 400 else Kind.REQUEST)
