"""
Claims and ends: messages to subjects that take one each, and refuse every other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anarchon.backend import (
    AnswerReason,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    Verdict,
)
from anarchon.errors import BackendError, RequestError, StoreRefusedError, StoreUnavailableError
from anarchon.protocol import check_finish_status, decide_claim_only
from anarchon_nats.instants import ServerTime
from anarchon_nats.line import Letter
from anarchon_nats.messages import claim_of, claim_payload, end_payload, token_of
from anarchon_nats.options import Options
from anarchon_nats.stream import Stream
from anarchon_nats.subjects import Subjects
from anarchon_nats.trouble import api_error, is_taken
from anarchon_nats.wire import Wire

__all__ = ["Ledger"]


class Ledger:
    """
    Makes and reads the messages of runs.

    Args:
        wire: The connection.

        stream: The stream.

        subjects: The names.

        options: What the user wants.

        time: What is known of the server's clock.

        where: The server in words.
    """

    def __init__(
        self,
        *,
        wire: Wire,
        stream: Stream,
        subjects: Subjects,
        options: Options,
        time: ServerTime,
        where: str,
    ) -> None:
        self._wire = wire
        self._stream = stream
        self._subjects = subjects
        self._options = options
        self._time = time
        self._where = where

    async def forgotten_until(self) -> int:
        """
        Return the newest slot that may have run without a trace, by the server's clock.
        """
        if self._time.stale(self._wire.connections):
            told = await self._stream.info()
            self._time.heard(told["ts"], self._wire.connections)
        return self._time.now_ms() - self._options.claim_memory_ms - 1

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[ClaimAnswer | BackendError]:
        """
        Publish all claims at once, and read whose the refused ones are.

        A claim that is refused may be the asker's own, sent before: its answer got lost.
        The message in its place tells, however long ago that was.

        Raises:
            BackendError: The outcome of each is unknown.
        """
        forgotten_until = await self.forgotten_until()
        answers: list[ClaimAnswer | BackendError | None] = [None] * len(requests)
        letters: dict[int, Letter] = {}
        looks: dict[int, str] = {}
        for place, request in enumerate(requests):
            try:
                subject = self._subjects.claim(request.job, request.slot)
                payload = claim_payload(request, bytes_max=self._wire.payload_bytes_max)
            except RequestError as error:
                answers[place] = error
                continue
            if request.attempt > 1 or request.slot <= forgotten_until:
                # It cannot be granted; but if it was, its owner is told so again.
                looks[place] = subject
            else:
                letters[place] = Letter(subject, payload)
        written = await self._publish(letters)
        # Whoever slept on the way, for longer than claims are kept, may have won a slot that has run.
        pruned_until = self._time.now_ms() - self._options.kept_ms
        for place, first in written.items():
            if not first:
                looks[place] = letters[place].subject
            elif requests[place].slot <= pruned_until:
                answers[place] = ClaimAnswer(verdict=Verdict.LATE, reason=AnswerReason.TOO_OLD)
            else:
                answers[place] = ClaimAnswer(verdict=Verdict.WON)
        for place, message in (await self._read(looks)).items():
            if message is None and place in letters:
                msg = f"{self._where}: {looks[place]} is taken, and by whom cannot be read yet"
                raise StoreUnavailableError(msg)
            try:
                holder = None if message is None else token_of(message)
            except RequestError as error:
                answers[place] = error
                continue
            answers[place] = decide_claim_only(holder, forgotten_until, requests[place], None)
        return [answer for answer in answers if answer is not None]

    async def finish(self, requests: Sequence[FinishRequest]) -> list[CloseAnswer | BackendError]:
        """
        Read whose the runs are, and publish how those ended that are the asker's.

        Raises:
            BackendError: The outcome of each is unknown.
        """
        answers: list[CloseAnswer | BackendError | None] = [None] * len(requests)
        looks: dict[int, str] = {}
        for place, request in enumerate(requests):
            try:
                check_finish_status(request, leases=False)
                looks[place] = self._subjects.claim(request.job, request.slot)
            except RequestError as error:
                answers[place] = error
        letters: dict[int, Letter] = {}
        gone: dict[int, str] = {}
        for place, message in (await self._read(looks)).items():
            request = requests[place]
            answers[place] = CloseAnswer(accepted=False)
            if message is None:
                gone[place] = self._subjects.end(request.job, request.slot)
                continue
            try:
                letter = self._end_of(request, message)
            except RequestError as error:
                answers[place] = error
            else:
                letters |= {} if letter is None else {place: letter}
        # A refused end was told before: the first one stands, and asking again is no mistake.
        for place in await self._publish(letters):
            answers[place] = CloseAnswer(accepted=True)
        # Of a claim that the stream's own limit has dropped, the end may still be there.
        for place, message in (await self._read(gone)).items():
            try:
                known = message is not None and token_of(message) == requests[place].token
            except RequestError as error:
                answers[place] = error
            else:
                answers[place] = CloseAnswer(accepted=known and requests[place].attempt == 1)
        return [answer for answer in answers if answer is not None]

    def _end_of(self, request: FinishRequest, message: Mapping[str, Any]) -> Letter | None:
        """
        Write how a run ended; None if the claim is somebody else's.
        """
        claim = claim_of(message)
        if claim.token != request.token or request.attempt > 1:
            return None
        payload = end_payload(request, claim, bytes_max=self._wire.payload_bytes_max)
        return Letter(self._subjects.end(request.job, request.slot), payload)

    async def _publish(self, letters: Mapping[int, Letter]) -> dict[int, bool]:
        """
        Publish messages, and say of each whether it was written; one that was not found another in its place.
        """
        if not letters:
            return {}
        written: dict[int, bool] = {}
        told = await self._wire.exchange(list(letters.values()))
        trouble: BackendError | None = None
        for place, answer in zip(letters, told, strict=True):
            error: Mapping[str, Any] | None = answer.get("error")
            if error is not None and not is_taken(error):
                trouble = trouble or api_error(error, self._where)
            written[place] = error is None
        if isinstance(trouble, StoreRefusedError) and any(written.values()):
            trouble = StoreUnavailableError(f"{trouble}; a part of the batch was written")
        if trouble is not None:
            raise trouble
        return written

    async def _read(self, subjects: Mapping[int, str]) -> dict[int, Mapping[str, Any] | None]:
        if not subjects:
            return {}
        found = await self._stream.read(list(subjects.values()))
        return dict(zip(subjects, found, strict=True))
