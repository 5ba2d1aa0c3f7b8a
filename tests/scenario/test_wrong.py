"""Every wrong scenario: what the message says, where, and that all errors are told at once."""

from pathlib import Path

import pytest

from cotenant.errors import ExitCode, UserError
from cotenant.scenario.load import load, parse

GOOD = """\
name: mine
lookahead: 400ms
tenants:
  tts: {kind: speech, engine: builtin}
  head: {kind: face, engine: builtin}
  llm: {kind: completions, engine: builtin}
load:
  voices: {tenant: tts, kind: voices, listeners: 2, every: 4s}
  faces: {tenant: head, kind: faces, follows: voices}
  decode: {tenant: llm, kind: completions, streams: 4, prompt: 128}
stages:
  - {name: alone, load: [voices], baseline: true}
  - {name: both, load: [voices, faces]}
gate: [voice]
"""


def message_of(text: str | bytes, tmp_path: Path, overrides: list[str] | None = None) -> str:
    path = tmp_path / "mine.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as caught:
        load(str(path), overrides or [])
    assert caught.value.exit_code == ExitCode.USAGE
    return str(caught.value)


def test_the_good_one_is_good(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    assert load(str(path)).name == "mine"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("every: 4s", "evry: 4s", "load.voices.evry (line 8): unknown key; did you mean 'every'?"),
        ("lookahead:", "lookahed:", "lookahed (line 2): unknown key; did you mean 'lookahead'?"),
        ("every: 4s", "every: 4", "load.voices.every (line 8): 4 has no unit; write 4s or 4ms, or auto"),
        (
            "400ms",
            "4 parsecs",
            "lookahead (line 2): '4 parsecs' is not a duration; write a number and a unit",
        ),
        ("every: 4s", "every: 0s", "load.voices.every (line 8): '0s' is no time at all; write more than 0ms"),
        (
            "[voices, faces]",
            "[voices, face]",
            "stages[1].load[1] (line 13): there is no load 'face'; did you mean 'faces'?",
        ),
        (
            "tenant: tts",
            "tenant: ttts",
            "load.voices.tenant (line 8): there is no tenant 'ttts'; did you mean 'tts'?",
        ),
        (
            "tenant: tts",
            "tenant: llm",
            "voices need a tenant of kind speech, and 'llm' is completions; use tts",
        ),
        (
            "faces]}",
            "faces], baseline: true}",
            "stages[1].baseline (line 13): stages[0] is the baseline already",
        ),
        ("name: both", "name: alone", "stages[1].name (line 13): stages[0] is called 'alone' too"),
        (
            "listeners: 2",
            "listeners: 0",
            "load.voices.listeners (line 8): 0 is out of range; write a whole number from 1",
        ),
        ("listeners: 2", "listeners: yes", "load.voices.listeners (line 8): True is not a whole number"),
        (
            "[voices, faces]",
            "[faces]",
            "stages[1].load[0] (line 13): 'faces' follows 'voices', which is not in this stage",
        ),
        ("follows: voices", "follows: decode", "faces follow voices, and 'decode' is not of that kind"),
        (
            "follows: voices",
            "follows: voice",
            "load.faces.follows (line 9): there is no load 'voice'; did you mean 'voices'?",
        ),
        (
            "follows: voices",
            "follows: voices, listeners: 3",
            "3 faces cannot follow 2 listeners of 'voices'; use at most 2",
        ),
        ("[voices, faces]", "[voices, voices]", "stages[1].load[1] (line 13): 'voices' stands here twice"),
        ("[voices, faces]", "[]", "stages[1].load (line 13): it is empty; there must be at least one"),
        (
            "engine: builtin}\n  head",
            "engine: attach}\n  head",
            "tenants.tts (line 4): engine: attach needs the address",
        ),
        (
            "engine: builtin}\n  head",
            'engine: launch, url: "http://h:1"}\n  head',
            "tenants.tts (line 4): engine: launch needs the command",
        ),
        (
            "engine: builtin}\n  head",
            "engine: launch, command: [a]}\n  head",
            "tenants.tts (line 4): engine: launch needs the address",
        ),
        (
            "engine: builtin}\n  head",
            'engine: builtin, url: "http://127.0.0.1:80"}\n  head',
            "tenants.tts.url (line 4): the engine builtin takes no url; remove it, or use engine: launch",
        ),
        (
            "kind: face,",
            "kind: fase,",
            "tenants.head.kind (line 5): 'fase' is not known; did you mean 'face'?",
        ),
        (
            "kind: faces",
            "kind: fases",
            "load.faces (line 9): the kind 'fases' is not known; did you mean 'faces'?",
        ),
        ("kind: faces, ", "", "load.faces (line 9): it has no kind; use one of: voices, faces, completions"),
        ("follows: voices", "", "load.faces.follows (line 9): it is missing; add it"),
        ("name: mine", "name: a/b", "name (line 1): 'a/b' is not a name; use 1 to 64 letters"),
        ("name: both", "name: solo:x", "stages[1].name (line 13): 'solo:x' is a phase of every run"),
        ("name: both", "name: warm", "stages[1].name (line 13): 'warm' is a phase of every run"),
        ("name: both", f"name: {'x' * 65}", "is not a name"),
        ("  decode:", "  de code:", "load.de code (line 10): 'de code' is not a name"),
        (
            "gate: [voice]",
            "gate: [voise]",
            "gate[0] (line 14): there is no gate profile 'voise'; did you mean 'voice'?",
        ),
        ("gate: [voice]", "gate: [{metric: a, op: '=', limit: 1}]", "gate[0].op (line 14): '=' is not known"),
        (
            "gate: [voice]",
            "gate: [{metric: a, op: <, limit: x}]",
            "gate[0].limit (line 14): 'x' is not a limit",
        ),
        (
            "gate: [voice]",
            "gate: [{metric: a, op: <, limit: 1, stages: [bth]}]",
            "gate[0].stages[0] (line 14): there is no stage 'bth'; did you mean 'both'?",
        ),
        (
            "streams: 4",
            "mode: rate",
            "load.decode (line 10): mode: rate needs how many requests are sent; add rate",
        ),
        (
            "streams: 4",
            "rate: 1/s",
            "load.decode.rate (line 10): mode: alive sends the next request when one ends",
        ),
        ("prompt: 128", "prompt: 1.5", "load.decode.prompt (line 10): 1.5 is not a size"),
        ("lookahead: 400ms", "sharing: mps\ndevice: gpu", "device (line 3): 'gpu' is not a device"),
        ("every: 4s", "text: []", "load.voices.text (line 8): there is no sentence to speak"),
        ("every: 4s", "text: 5", "load.voices.text (line 8): 5 is no text"),
        ("every: 4s", "text: nowhere.txt", "load.voices.text (line 8): cannot read"),
        ("every: 4s", "mode: trns", "load.voices.mode (line 8): 'trns' is not known; did you mean 'turns'?"),
    ],
)
def test_one_mistake_gives_one_sentence(old: str, new: str, told: str, tmp_path: Path) -> None:
    assert GOOD.count(old) >= 1
    message = message_of(GOOD.replace(old, new, 1), tmp_path)
    assert told in message
    assert " has one error:\n" in message, message


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("400ms", "400").replace("evry", "every").replace("tenant: tts", "tenant: nobody")
    text = (
        text.replace("name: both", "name: alone").replace("prompt: 128", "promt: 128") + "seed: x\nseed: 1\n"
    )
    message = message_of(text, tmp_path, ["load.decode.streams=0", "stages[9].name=x"])
    for place in (
        "lookahead (line 2)",
        "load.voices.tenant (line 8)",
        "load.decode.promt (line 10)",
        "load.decode.streams (--set load.decode.streams=0)",
        "stages[1].name (line 13)",
        "stages[9].name (--set stages[9].name=x): stages has 2 items",
        "seed (line 16): the key stands here twice (first: line 15)",
    ):
        assert place in message, message
    assert "has 7 errors" in message, message


def test_sharing_by_mps_acts_only_on_servers_started_here(tmp_path: Path) -> None:
    text = GOOD.replace("lookahead: 400ms", "sharing: mps").replace(
        "llm: {kind: completions, engine: builtin}",
        'llm: {kind: completions, engine: attach, url: "http://h:1"}',
    )
    assert "tenants.llm.engine (line 6): sharing: mps acts on servers started here" in message_of(
        text, tmp_path
    )


def test_limits_of_mps_need_mps(tmp_path: Path) -> None:
    text = GOOD.replace("completions, engine: builtin}", "completions, engine: builtin, mps: {priority: 1}}")
    assert "tenants.llm.mps (line 6): this needs sharing: mps" in message_of(text, tmp_path)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("127.0.0.1:80", "is not a server's address; write it as http://127.0.0.1:80"),
        ("tts.example.org/v1", "is not a server's address; write it as http://tts.example.org/v1"),
        ("localhost:8880", "is not a server's address; write it as http://localhost:8880"),
        ("me:secret@h:80", "is not a server's address; write it as http://127.0.0.1:8091"),
        ("h:99999", "is not a server's address; write it as http://127.0.0.1:8091"),
        ("nowhere", "is not a server's address; write it as http://127.0.0.1:8091"),
        ("http://", "is not a server's address"),
        ("http://h:99999", "is not a server's address"),
        ("ftp://h", "is not a server's address"),
        ("http://me:secret@h", "a password in an address would be recorded"),
    ],
)
def test_an_address_is_checked(url: str, told: str, tmp_path: Path) -> None:
    text = GOOD.replace("speech, engine: builtin}", f'speech, engine: attach, url: "{url}"}}')
    message = message_of(text, tmp_path)
    assert told in message
    assert "secret" not in message


def test_a_key_in_place_of_its_variable_is_not_repeated(tmp_path: Path) -> None:
    text = GOOD.replace("speech, engine: builtin}", "speech, engine: builtin, api_key_env: sk-12345}")
    message = message_of(text, tmp_path)
    assert "tenants.tts.api_key_env (line 4): this is not a variable's name" in message
    assert "12345" not in message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the whole file: it is empty; a scenario is"),
        ("# nothing\n", "the whole file: it is empty"),
        ("- a\n- b\n", "the whole file (line 1): it is a list; a scenario is"),
        ("just words", "the whole file (line 1): it is 'just words'"),
        ("a: [1, 2", "this is not YAML"),
        ("a: {b: c", "this is not YAML"),
        ("a:\tb: c", "this is not YAML"),
        (b"a: \x00", "this is not YAML"),
        (b"\xff\xfe\xfa", "is not UTF-8 text"),
        ("a: " + "[" * 3000, "nested more than 40 deep"),
        ("---\na: 1\n---\nb: 2\n", "the whole file (line 3): a second document starts here"),
        ("{}", "tenants: it is missing; add it"),
    ],
)
def test_what_is_no_scenario_at_all(text: str | bytes, told: str, tmp_path: Path) -> None:
    assert told in message_of(text, tmp_path)


def test_duplicate_keys_are_told_with_both_lines(tmp_path: Path) -> None:
    message = message_of(GOOD + "lookahead: 1s\n", tmp_path)
    assert "lookahead (line 15): the key stands here twice (first: line 2); keep one" in message


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!!binary", "!include", "!!set"])
def test_tags_are_refused_and_do_nothing(tag: str, tmp_path: Path) -> None:
    message = message_of(GOOD + f"about: {tag} 'touch /tmp/x'\n", tmp_path)
    assert "about (line 15): the tag" in message
    assert "is not allowed; write a plain value" in message


def test_an_alias_bomb_is_refused_before_it_grows(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30)
    )
    message = message_of(bomb, tmp_path)
    assert "a0 (line 1): the anchor &a0 is not allowed" in message
    assert "a1[0] (line 2): the alias *a0 is not allowed" in message


def test_a_file_of_more_than_a_megabyte_is_refused(tmp_path: Path) -> None:
    assert "is larger than 1000000 bytes" in message_of(GOOD + "#" * 1_000_000, tmp_path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"gone\.yaml is not there; give a path to a scenario, or one of all-together"
    ):
        load(str(tmp_path / "gone.yaml"))


def test_a_folder_is_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: it is not a file"):
        load(f"{tmp_path}/")


@pytest.mark.parametrize(
    "name", ["all-togther", "../../etc/passwd", "/dev/zero", "", ".", "~nobody-here/x", "a\0b"]
)
def test_a_name_that_is_not_packaged(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        load(name)
    if name == "all-togther":
        assert "did you mean 'all-together'?" in str(caught.value)


def test_files_that_extend_each_other_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: b.yaml\n")
    (tmp_path / "b.yaml").write_text("extends: a.yaml\n")
    with pytest.raises(UserError, match=r"extends \(b\.yaml, line 1\): the files extend each other"):
        load(str(tmp_path / "a.yaml"))


@pytest.mark.parametrize(
    ("base", "told"),
    [("tts-alne", "did you mean 'tts-alone'?"), ("gone.yaml", "is not there"), ("[a]", "is no scenario")],
)
def test_a_base_that_is_not_there_is_told(base: str, told: str, tmp_path: Path) -> None:
    message = message_of(f"seed: 1\nextends: {base}\n", tmp_path)
    assert told in message


def test_an_extends_that_is_wrong_is_told_with_its_file(tmp_path: Path) -> None:
    where = f"extends ({tmp_path / 'mine.yaml'}, line 2): "
    assert message_of("seed: 1\nextends: tts-alne\n", tmp_path).startswith(where)
    (tmp_path / "base.yaml").write_text("extends: gone.yaml\n")
    assert "gone.yaml is not there" in message_of("extends: base.yaml\n", tmp_path)


def test_extends_stands_in_a_file() -> None:
    with pytest.raises(UserError) as caught:
        load("all-together", ["extends=tts-alone"])
    assert "extends (--set extends=tts-alone): a scenario extends another in a file" in str(caught.value)
    assert "did you mean" not in str(caught.value)


def test_an_error_in_a_base_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(GOOD.replace("400ms", "400"))
    message = message_of("extends: base.yaml\nseed: x\n", tmp_path)
    assert "lookahead (base.yaml, line 2): 400 has no unit" in message
    assert "seed (line 2): 'x' is not a whole number" in message


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("lookahead", "--set: 'lookahead' is not path=value"),
        ("=3", "--set: '=3' is not path=value"),
        (".a=3", "--set: '.a=3' is not path=value"),
        ("a..b=3", "--set: 'a..b=3' is not path=value"),
        ("[0]=3", "--set: '[0]=3' is not path=value"),
        ("lookahead.deep=3", "lookahead.deep (--set lookahead.deep=3): lookahead is a single value"),
        ("stages.one.name=x", "stages has 2 items; write [0] to [2]"),
        ("loda.voices.every=4s", "loda (--set loda.voices.every=4s): unknown key; did you mean 'load'?"),
        ("lookahead=[1", "lookahead (--set lookahead=[1): this is not YAML"),
        ("lookahead=&a 1", "the anchor &a is not allowed"),
        ("tenants=null", "tenants (--set tenants=null): it is missing; add it"),
    ],
)
def test_a_wrong_override_is_told(override: str, told: str, tmp_path: Path) -> None:
    assert told in message_of(GOOD, tmp_path, [override])


@pytest.mark.parametrize(
    "data", [None, [], 5, "x", {}, {"tenants": []}, {"tenants": {"a": 1}, "load": 3, "stages": {"x": 1}}]
)
def test_plain_data_of_any_form_is_refused_in_words(data: object) -> None:
    with pytest.raises(UserError, match="the scenario has"):
        parse(data)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("observe: {gpus: false}", "observe.gpus (line 15): unknown key; did you mean 'gpu'? (gpu, canary,"),
        ("observe: {watch: false}", "unknown key; use one of: gpu, canary, host, engine"),
        ("player: {begin: delay}", "player.begin (line 15): unknown key; use one of: start, after_underrun"),
        ("timing: {mesure: 5s}", "timing.mesure (line 15): unknown key; did you mean 'measure'?"),
    ],
)
def test_an_unknown_key_of_a_part_is_told_with_those_that_it_has(
    place: str, told: str, tmp_path: Path
) -> None:
    assert told in message_of(GOOD + place + "\n", tmp_path)


@pytest.mark.parametrize(
    ("part", "known"),
    [
        ("ready: {wihin: 5s}", "'within'"),
        ("mps: {zz: 1}", "use one of: "),
        ("packets: {stedy: 4}", "'steady'"),
        ("vllm: {zz: 1}", "use one of: "),
        ("frames: {imag: a}", "'image'"),
        ("frames: {audio: {pth: a}}", "'path'"),
    ],
)
def test_an_unknown_key_of_a_part_of_a_tenant(part: str, known: str, tmp_path: Path) -> None:
    message = message_of(GOOD.replace("kind: face,", f"kind: face, {part},"), tmp_path)
    line = next(line for line in message.splitlines() if "unknown key" in line)
    assert known in line
    assert "none to choose from" not in message
