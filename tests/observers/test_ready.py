"""What the log of an observer is taken to say."""

import json

from cotenant.observers.ready import report, sentences

NO_LIBRARY = {"ready": False, "kind": "no_library", "message": "not found", "advice": "install it"}


def test_a_log_without_a_word_is_not_ready_and_not_refused() -> None:
    assert report("") == {"ready": None}
    assert sentences("gpu", report("")) == []
    assert report('{"ready": 1}\n[]\nnull\n')["ready"] is None


def test_one_that_gave_up_has_its_message_and_advice() -> None:
    told = report(json.dumps(NO_LIBRARY) + "\n")
    assert told == NO_LIBRARY
    assert sentences("gpu", told) == ["gpu: not found; install it"]


def test_notes_become_sentences_and_what_came_after_is_kept() -> None:
    note = {"kind": "no-gpm", "text": "no GPM", "advice": ""}
    more = {"kind": "mig-on", "text": "MIG is on", "advice": "name a slice"}
    log = "a warning\n" + json.dumps({"ready": True, "notes": [note, more]}) + "\nthe canary lost cuda:0\n\n"
    told = report(log)
    assert told["said"] == "the canary lost cuda:0"
    assert sentences("gpu", told) == ["gpu: no GPM", "gpu: MIG is on; name a slice"]
