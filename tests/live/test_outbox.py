"""The queue of what is published: order, limits, what is counted as dropped."""

import json

import pytest

from cotenant.live.outbox import Outbox, time_text


def outbox(**limits: int) -> Outbox:
    return Outbox(lambda: 1_700_000_000_123_456_789, **limits)


def waiting(box: Outbox) -> list[tuple[int, str]]:
    return [(message.seq, message.kind) for message in box.after(0, 10**6)]


def test_a_message_has_its_number_the_time_and_its_fields() -> None:
    box = outbox()
    box.put("stage", {"name": "a\u202e/+#\0\ud800"})
    (message,) = box.after(0, 5)
    assert message.retain
    assert message.payload.isascii()
    assert json.loads(message.payload) == {
        "seq": 1,
        "time": "2023-11-14T22:13:20.123Z",
        "name": "a\u202e/+#\0\ud800",
    }


@pytest.mark.parametrize(("kind", "retain"), [("status", True), ("verdict", True), ("metrics", False)])
def test_what_stands_until_it_changes_is_retained(kind: str, retain: bool) -> None:
    box = outbox()
    box.put(kind, {})
    assert box.after(0, 1)[0].retain is retain


def test_of_too_many_metrics_the_oldest_goes_and_the_number_stays_a_gap() -> None:
    box = outbox(metrics_limit=2)
    for kind in ("metrics", "underrun", "metrics", "metrics", "stage"):
        box.put(kind, {})
    assert waiting(box) == [(2, "underrun"), (3, "metrics"), (4, "metrics"), (5, "stage")]
    assert box.counts().dropped == {"metrics": 1}


def test_of_too_many_underruns_the_new_one_goes_and_the_verdict_is_always_taken() -> None:
    box = outbox(underrun_limit=2)
    for kind in ("underrun", "underrun", "underrun", "verdict"):
        box.put(kind, {})
    assert waiting(box) == [(1, "underrun"), (2, "underrun"), (4, "verdict")]
    box.confirm(1)
    box.put("underrun", {})
    assert waiting(box) == [(2, "underrun"), (4, "verdict"), (5, "underrun")]
    assert box.counts().dropped == {"underrun": 1}
    assert box.counts().published == 1


def test_a_confirmation_of_what_was_given_up_under_way_counts_once() -> None:
    box = outbox(metrics_limit=1)
    box.put("metrics", {})
    box.put("metrics", {})
    box.confirm(1)
    assert (box.counts().published, box.counts().dropped) == (0, {"metrics": 1})
    box.confirm(2)
    box.confirm(2)
    assert box.counts().published == 1
    assert box.empty


def test_what_is_given_up_at_the_end_is_dropped() -> None:
    box = outbox(metrics_limit=3, underrun_limit=2)
    for kind in ("status", "underrun", "underrun", "metrics"):
        box.put(kind, {})
    box.confirm(1)
    box.give_up()
    assert box.empty
    assert box.counts().dropped == {"underrun": 2, "metrics": 1}
    assert box.after(0, 9) == []
    # What is put after that finds all the room there is.
    for kind in ("underrun", "underrun", "metrics", "metrics", "metrics"):
        box.put(kind, {})
    assert [message.seq for message in box.after(0, 9)] == [5, 6, 7, 8, 9]
    assert box.counts().dropped == {"underrun": 2, "metrics": 1}


def test_only_later_messages_and_no_more_than_asked() -> None:
    box = outbox()
    for _ in range(5):
        box.put("underrun", {})
    assert [message.seq for message in box.after(2, 2)] == [3, 4]
    assert box.after(0, 0) == []


def test_time_is_to_the_millisecond_also_before_1970() -> None:
    assert time_text(0) == "1970-01-01T00:00:00.000Z"
    assert time_text(-1) == "1969-12-31T23:59:59.999Z"
