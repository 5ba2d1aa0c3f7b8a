"""The address of a broker: what is taken, and that a password is neither taken nor repeated."""

from pathlib import Path

import pytest

from cotenant.errors import UserError
from cotenant.live.broker import broker_from, topic_level


@pytest.mark.parametrize(
    ("url", "host", "port", "prefix", "tls"),
    [
        ("mqtt://broker", "broker", 1883, "cotenant", False),
        ("mqtt://broker:1884/a/b/", "broker", 1884, "a/b", False),
        ("MQTT://[::1]:1884/gpu%20lab", "::1", 1884, "gpu lab", False),
        ("mqtts://broker/lab", "broker", 8883, "lab", True),
    ],
)
def test_an_address(url: str, host: str, port: int, prefix: str, tls: bool) -> None:
    broker = broker_from(url, {})
    assert (broker.host, broker.port, broker.prefix) == (host, port, prefix)
    assert (broker.tls is not None) == tls


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("", "mqtt://HOST"),
        ("broker:1883", "mqtt://HOST"),
        ("http://broker", "mqtt://HOST"),
        ("mqtt://", "mqtt://HOST"),
        ("mqtt://b:0", "mqtt://HOST"),
        ("mqtt://b/lab\n1", "mqtt://HOST"),
        ("mqtt://b/lab\t1", "mqtt://HOST"),
        ("mqtt://:1883/x", "mqtt://HOST"),
        ("mqtt://broker:0x", "mqtt://HOST"),
        ("mqtt://broker:70000", "mqtt://HOST"),
        ("mqtt://[::1", "mqtt://HOST"),
        ("mqtt://broker/a/#", "'#'"),
        ("mqtt://broker/a/%23", "'#'"),
        ("mqtt://broker/a/+/b", "'+'"),
        ("mqtt://broker/a%00b", "printed"),
        ("mqtt://broker/a%ffb", "printed"),
        ("mqtt://broker/$SYS", "'$'"),
        ("mqtt://broker/a?b=c", "'?'"),
        ("mqtt://broker/" + "x" * 2000, "1024 bytes"),
        ("mqtt://me:s3cret@broker", "COTENANT_MQTT_USER"),
        ("mqtt://me:s3cret@broker:port", "mqtt://HOST"),
        ("mqtt://me@broker", "COTENANT_MQTT_USER"),
        ("mqtt://:s3cret@broker", "COTENANT_MQTT_USER"),
        ("mqtt://me:s3c/ret@broker", "mqtt://HOST"),
    ],
)
def test_a_bad_address_is_one_sentence_that_repeats_no_password(url: str, part: str) -> None:
    with pytest.raises(UserError) as caught:
        broker_from(url, {})
    text = str(caught.value)
    assert part in text
    assert "\n" not in text
    assert "s3c" not in text


def test_user_and_password_come_from_the_environment_and_are_not_shown() -> None:
    broker = broker_from("mqtt://b", {"COTENANT_MQTT_USER": "me", "COTENANT_MQTT_PASSWORD": "s3cret"})
    assert (broker.user, broker.password) == ("me", "s3cret")
    assert "s3cret" not in repr(broker)


def test_a_password_without_a_user_cannot_be_sent() -> None:
    with pytest.raises(UserError, match="COTENANT_MQTT_USER is not"):
        broker_from("mqtt://b", {"COTENANT_MQTT_PASSWORD": "s3cret"})


def test_a_ca_is_for_tls_and_has_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="mqtts://"):
        broker_from("mqtt://b", {"COTENANT_MQTT_CA": "ca.pem"})
    with pytest.raises(UserError, match="No such file"):
        broker_from("mqtts://b", {"COTENANT_MQTT_CA": str(tmp_path / "none.pem")})
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(UserError, match="names no file of CA certificates"):
        broker_from("mqtts://b", {"COTENANT_MQTT_CA": str(tmp_path / "ca.pem")})


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("2026-11-30T07-00-00Z-all-together", "2026-11-30T07-00-00Z-all-together"),
        ("a/b+c#d", "a_b_c_d"),
        ("a\0b\n\u202ec\ud800", "a_b__c_"),
        ("$SYS", "_SYS"),
        ("Stimme übt", "Stimme übt"),
        ("", "_"),
    ],
)
def test_a_run_id_is_one_level_of_a_topic(text: str, level: str) -> None:
    assert topic_level(text) == level
