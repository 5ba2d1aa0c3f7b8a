"""One connection to an MQTT broker, with aiomqtt; the last will is `interrupted`."""

import json
import logging
import re
import secrets
from collections.abc import Callable
from typing import Final

import aiomqtt

from cotenant.live.broker import Broker
from cotenant.live.outbox import Message

# A broker that answers neither a connection nor a message for so long is taken for gone.
ANSWER_LIMIT_S: Final = 5.0
# A broker tells the last will of a host that vanished after one and a half of it.
KEEPALIVE_S: Final = 10

_NUMBER_RE: Final = re.compile(r"^\[[^]]*\] ?")

# The libraries' own warnings: what matters of them is told in our words.
_silent = logging.getLogger("cotenant.live.mqtt")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def links(broker: Broker, run_id: str, topic: Callable[[str], str]) -> Callable[[], "MqttLink"]:
    """Makes links of one run. `topic`: last level -> topic.

    All have one client id, so that a broker which still holds the link before ends it, and tells its last
    will, at once and not when a new `running` has been told. The session is clean: what is unconfirmed is
    kept and sent again here, and no broker has to remember a run for ever.
    """
    identifier = f"cotenant-{secrets.token_hex(6)}"  # 23 characters is what every broker takes
    will = aiomqtt.Will(
        topic("status"),
        json.dumps({"seq": None, "time": None, "run_id": run_id, "status": "interrupted"}).encode(),
        qos=1,
        retain=True,
    )
    return lambda: MqttLink(broker, identifier, will, topic)


class MqttLink:
    """See `cotenant.live.publisher.Link`."""

    def __init__(
        self, broker: Broker, identifier: str, will: aiomqtt.Will, topic: Callable[[str], str]
    ) -> None:
        self._topic = topic
        self._client = aiomqtt.Client(
            broker.host,
            broker.port,
            identifier=identifier,
            username=broker.user,
            password=broker.password,
            tls_context=broker.tls,
            will=will,
            keepalive=KEEPALIVE_S,
            timeout=ANSWER_LIMIT_S,
            clean_session=True,
            logger=_silent,
        )

    async def open(self) -> None:
        """Raises ConnectionError, in words for people."""
        try:
            await self._client.__aenter__()
        except aiomqtt.MqttError as error:
            raise ConnectionError(_NUMBER_RE.sub("", str(error))) from None

    async def publish(self, message: Message) -> None:
        await self._client.publish(self._topic(message.kind), message.payload, qos=1, retain=message.retain)

    async def lost(self) -> None:
        # Nothing is subscribed to: the iterator ends, with an error, only when the connection does.
        async for _ in self._client.messages:
            pass

    async def close(self) -> None:
        await self._client.__aexit__(None, None, None)

    def hang_up(self) -> None:
        """aiomqtt leaves the socket of a broker that does not answer open, and a task beside it."""
        paho = self._client._client
        if paho.socket() is not None:
            paho._sock_close()
        task = self._client._misc_task
        if task is not None:
            task.cancel()
