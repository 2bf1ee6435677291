"""Runs a scenario of a leader's verifications: commands in, effects out. The runner is the shell, of broker 0.

    settings name=value...                               begin again with these settings
    coordinators ID=N|CODE...                            the coordinators of all transactional ids; others are not known
    batch NAME ID PRODUCER/EPOCH topic-partition [adds]  a batch waits for a verification, shared by its key
    alone NAME ID PRODUCER/EPOCH topic-partition adds    the batch is its request's only one, which may be added at once
    offsets NAME ID PRODUCER/EPOCH topic-partition [adds]   offsets wait for one, which they do not share
    batches N ID PRODUCER/EPOCH TOPIC                    batches of so many partitions, from 0 on
    answered N [ID/topic-partition=CODE...] [error=CODE]   request N is answered; NONE for what is not named
    silent N                                             request N is answered, without any partition
    failed N     too-old N                               request N is not answered; its broker does not know it
    verified N [CODE]                                    this broker's coordinator answers verification N
    added ID [CODE]                                      it answers what was to be added to the transaction
    stop     wait MS

Requests to other brokers are numbered from 1, and so are verifications by this broker's own coordinator. Commands on
one line, with ` & ` between them, come in one iteration of the loop.
"""

from __future__ import annotations

from collections.abc import Hashable

from kavka.core.verification import events
from kavka.core.verification.machine import VerificationMachine
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition

THIS_BROKER = BrokerId(0)


class Coordinators:
    """The coordinators of transactional ids."""

    def __init__(self) -> None:
        self.by_id: dict[str, BrokerId | ErrorCode] = {}

    def known_leader_of(self, transactional_id: str, /) -> BrokerId | ErrorCode:
        return self.by_id.get(transactional_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Story:
    """One broker's machine, and the coordinators that it asks."""

    def __init__(self, settings: events.VerificationSettings | None = None) -> None:
        self.coordinators = Coordinators()
        self.machine = VerificationMachine(
            THIS_BROKER, self.coordinators, settings or events.VerificationSettings()
        )
        self.names: list[str] = []  # by token
        self.begun: list[events.SendRequest | events.AddHere] = []
        self.requests: list[tuple[int, tuple[events.VerificationRequest, ...]]] = []
        self.here: list[int] = []  # their numbers in the machine
        self.adding: dict[str, events.TransactionalProducer] = {}
        self.now_ms = 0
        self.out: list[str] = []

    def command(self, line: str) -> str:
        self.out = []
        for command in line.split(" & "):
            name, *words = command.split()
            options = dict(word.split("=", 1) for word in words if "=" in word)
            plain = [word for word in words if "=" not in word]
            getattr(self, f"do_{name.replace('-', '_')}")(plain, options)
        self.next_iteration()
        return "\n".join(self.out) or "ok"

    # Commands

    def do_settings(self, _: list[str], options: dict[str, str]) -> None:
        values = {name: int(value) for name, value in options.items()}
        self.__init__(events.VerificationSettings(**values))  # type: ignore[misc]

    def do_coordinators(self, _: list[str], options: dict[str, str]) -> None:
        self.coordinators.by_id = {
            transactional_id: BrokerId(int(value)) if value.isdigit() else ErrorCode[value]
            for transactional_id, value in options.items()
        }
        self.handle(events.MetadataChanged())

    def do_batch(self, words: list[str], _: dict[str, str]) -> None:
        request = request_in(words[1:])
        self.need(words[0], request[1:4], request)

    def do_alone(self, words: list[str], _: dict[str, str]) -> None:
        request = request_in(words[1:])
        key = request[1:4]
        if not self.machine.may_add_at_once(key, request):
            self.need(words[0], key, request)
            return
        self.names.append(words[0])
        self.adding[request.transactional_id] = events.TransactionalProducer(*request[:3])
        self.out.append(f"here: {show_request(request)}")
        self.handle(events.AddSubmitted(len(self.names) - 1, key, request))

    def do_offsets(self, words: list[str], _: dict[str, str]) -> None:
        self.need(words[0], len(self.names), request_in(words[1:]))

    def do_batches(self, words: list[str], _: dict[str, str]) -> None:
        for index in range(int(words[0])):
            request = request_in([*words[1:3], f"{words[3]}-{index}"])
            self.need(f"b{index}", request[1:4], request)

    def need(self, name: str, key: Hashable, request: events.VerificationRequest) -> None:
        self.names.append(name)
        self.handle(events.VerificationNeeded(len(self.names) - 1, key, request))

    def do_answered(self, words: list[str], options: dict[str, str]) -> None:
        number, requests = self.request(words)
        error = ErrorCode[options.get("error", "NONE")]
        names = [
            (request.transactional_id, request.topic_partition)
            for request in requests
            if error is ErrorCode.NONE
        ]
        codes = {name: ErrorCode[options.get(f"{name[0]}/{name[1]}", "NONE")] for name in names}
        self.handle(events.ResponseReceived(number, codes, error))

    def do_silent(self, words: list[str], _: dict[str, str]) -> None:
        self.handle(events.ResponseReceived(self.request(words)[0], {}, ErrorCode.NONE))

    def do_failed(self, words: list[str], _: dict[str, str]) -> None:
        self.handle(events.RequestFailed(self.request(words)[0]))

    def do_too_old(self, words: list[str], _: dict[str, str]) -> None:
        self.handle(events.CoordinatorTooOld(self.request(words)[0]))

    def do_verified(self, words: list[str], _: dict[str, str]) -> None:
        number = self.here[int(words[0]) - 1]
        self.handle(events.VerifiedHere(number, code_in(words)))

    def do_added(self, words: list[str], _: dict[str, str]) -> None:
        self.handle(events.AddedHere(self.adding[words[0]], code_in(words)))

    def do_stop(self, _: list[str], __: dict[str, str]) -> None:
        self.handle(events.Stopped())

    def do_wait(self, words: list[str], _: dict[str, str]) -> None:
        until_ms = self.now_ms + int(words[0])
        while (due_ms := self.machine.deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.out.append(f"at {self.now_ms} ms:")
            self.perform(self.machine.tick(self.now_ms))
            self.next_iteration()
        self.now_ms = until_ms

    # The shell

    def request(self, words: list[str]) -> tuple[int, tuple[events.VerificationRequest, ...]]:
        return self.requests[int(words[0]) - 1]

    def handle(self, event: events.Event) -> None:
        self.perform(self.machine.handle(event, self.now_ms))

    def perform(self, effects: list[events.Effect]) -> None:
        ended = [effect for effect in effects if isinstance(effect, events.VerificationEnded)]
        if len(ended) > 5:
            codes = " ".join(dict.fromkeys(effect.code.name for effect in ended))
            self.out.append(f"{len(ended)} have ended: {codes}")
            effects = [effect for effect in effects if effect not in ended]
        for effect in effects:
            if isinstance(effect, events.SendRequest | events.AddHere):
                self.begun.append(effect)
            else:
                self.out.append(self.show(effect))

    def next_iteration(self) -> None:
        """Send what is begun."""
        begun, self.begun = self.begun, []
        for effect in begun:
            if isinstance(effect, events.SendRequest):
                self.send(*effect)
            else:
                self.add(effect.producer)

    def send(self, number: int, broker_id: BrokerId) -> None:
        requests = self.machine.take_requests(number)
        if not requests:
            self.handle(events.ResponseReceived(number, {}, ErrorCode.NONE))
            return
        self.requests.append((number, requests))
        few = len(requests) <= 5
        shown = "; ".join(map(show_request, requests)) if few else f"{len(requests)} rows"
        self.out.append(f"request {len(self.requests)} to broker {broker_id}: {shown}")

    def add(self, producer: events.TransactionalProducer) -> None:
        self.adding[producer.transactional_id] = producer
        names = " ".join(map(str, self.machine.take_partitions(producer)))
        if not names:
            return
        name, producer_id, epoch = producer
        self.out.append(f"here: add {name} {producer_id}/{epoch} {names}")

    # Printing

    def show(self, effect: events.Effect) -> str:
        match effect:
            case events.GiveUpRequest(number, broker_id):
                index = [begun for begun, _requests in self.requests].index(number) + 1
                return f"gives up request {index} to broker {broker_id}"
            case events.VerifyHere(number, request):
                self.here.append(number)
                return f"verification {len(self.here)} here: {show_request(request)}"
            case events.VerificationEnded(tokens, code):
                return f"{' '.join(self.names[token] for token in tokens)}: {code.name}"
            case _:
                raise AssertionError(effect)


def request_in(words: list[str]) -> events.VerificationRequest:
    transactional_id, producer, name = words[:3]
    producer_id, epoch = producer.split("/")
    topic, number = name.rsplit("-", 1)
    topic_partition = TopicPartition(topic, int(number))
    return events.VerificationRequest(
        transactional_id, int(producer_id), int(epoch), topic_partition, "adds" in words
    )


def code_in(words: list[str]) -> ErrorCode:
    return ErrorCode[words[1]] if len(words) > 1 else ErrorCode.NONE


def show_request(request: events.VerificationRequest) -> str:
    transactional_id, producer_id, epoch, topic_partition, adds = request
    verb = "add" if adds else "verify"
    return f"{verb} {transactional_id} {producer_id}/{epoch} {topic_partition}"
