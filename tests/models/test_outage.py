"""When a server is held to be gone."""

from __future__ import annotations

from stratagraph.models.retry import Outage


def test_one_call_that_always_fails_is_not_the_server() -> None:
    outage = Outage(3)
    for _ in range(9):
        outage.failed(0)
    assert not outage.over(patient=False)


def test_several_calls_share_what_one_may_send_where_somebody_waits() -> None:
    outage = Outage(3)
    for call in (0, 1, 0):
        assert not outage.over(patient=False)
        outage.failed(call)
    assert outage.over(patient=False)
    assert not outage.over(patient=True)
    for call in (1, 0, 1):
        outage.failed(call)
    assert outage.over(patient=True)


def test_calls_that_fail_side_by_side_are_repeated_before_it_is_the_server() -> None:
    outage = Outage(6)
    for repetition in range(2):
        for call in range(10):
            outage.failed(call)
            assert not outage.over(patient=False), repetition
    outage.failed(4)
    assert outage.over(patient=False)


def test_calls_that_all_come_too_late_are_not_followed_by_others() -> None:
    outage = Outage(3)
    for _ in range(3):
        assert not outage.over(patient=True)
        outage.gave_up()
    assert outage.over(patient=True)
    assert outage.too_slow
    outage.answered()
    assert not outage.over(patient=True)


def test_an_answer_ends_it() -> None:
    outage = Outage(1)
    outage.failed(0)
    outage.failed(1)
    assert outage.over(patient=False)
    outage.answered()
    assert not outage.over(patient=False)
    assert outage.length == 0
