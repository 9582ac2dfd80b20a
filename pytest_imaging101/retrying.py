"""A faulted attempt is tried again, whole and in a new sandbox; a miss never is."""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

from pytest_imaging101.collection import AttemptItem


def run_with_retries(item: AttemptItem, nextitem: pytest.Item | None, retries: int) -> bool:
    """Run an item's protocol until it has a verdict or its retries are spent; report the last try.

    Every try leaves its own outcome in the run's folder.
    """
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = _try_once(item, nextitem)
    while item.retry <= retries and item.may_retry() and not item.session.shouldstop:
        item.retry += 1
        reports = _try_once(item, nextitem)
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _try_once(item: AttemptItem, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    item.attempt = None
    item.last_error = None
    item.user_properties.clear()
    return runtestprotocol(item, log=False, nextitem=nextitem)
