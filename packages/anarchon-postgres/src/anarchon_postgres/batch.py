"""
A batch of requests: in pieces, each one statement and one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from anarchon.errors import BackendError, StoreRefusedError, StoreUnavailableError
from anarchon_postgres.operations import Alone, Operation
from anarchon_postgres.rows import AnyRequest, check_request
from anarchon_postgres.schema import statement_sql
from anarchon_postgres.session import Session
from anarchon_postgres.trouble import is_for_data, store_error

__all__ = ["PIECE_MAX", "Batch"]

PIECE_MAX = 256
"""
How many items one transaction carries: some ten milliseconds, in which it holds their jobs' rows.
"""

Request = TypeVar("Request", bound=AnyRequest)
Answer = TypeVar("Answer")


class Batch:
    """
    Sends the batches of one backend.

    Args:
        schema: Where the functions are.

        pruning: What a function that opens records is told of the retention: how
            many a job keeps, and the age at which to forget them, if it is time to look.
    """

    def __init__(self, schema: str, pruning: Callable[[], tuple[int, int | None]]) -> None:
        self._schema = schema
        self._pruning = pruning
        self._statements: dict[str, str] = {}

    async def ask(
        self,
        session: Session,
        operation: Operation[Request, Answer],
        requests: Sequence[Request],
    ) -> list[Answer | BackendError]:
        """
        Answer a batch in its order.

        Raises:
            StoreUnavailableError: The server refused a later piece when earlier ones
                had been written; asked again, those get the same answers.
        """
        if len(requests) == 1 and operation.alone is not None:
            return [await self._one(session, operation, operation.alone, requests[0])]
        answers: dict[int, Answer | BackendError] = {}
        fit: list[tuple[int, Request]] = []
        for index, request in enumerate(requests):
            unfit = check_request(request)
            if unfit is None:
                fit.append((index, request))
            else:
                answers[index] = unfit
        # Rows are locked in one order everywhere, so that two batches never wait for each other in a circle.
        fit.sort(key=lambda item: (item[1].job, item[1].slot or 0))
        for start in range(0, len(fit), PIECE_MAX):
            piece = fit[start : start + PIECE_MAX]
            try:
                await self._piece(session, operation, piece, answers)
            except Exception as error:
                trouble = store_error(error, session.place)
                if start == 0 or not isinstance(trouble, StoreRefusedError):
                    raise
                msg = f"{trouble}; a part of the batch had been written"
                raise StoreUnavailableError(msg) from error
        return [answers[index] for index in range(len(requests))]

    async def _one(
        self,
        session: Session,
        operation: Operation[Request, Answer],
        alone: Alone[Request, Answer],
        request: Request,
    ) -> Answer | BackendError:
        """
        Answer one request by the statement for one.
        """
        unfit = check_request(request)
        if unfit is not None:
            return unfit
        pruning = self._pruning()
        if pruning[1] is not None:
            # It is time to forget records, which the function for a batch does.
            answers: dict[int, Answer | BackendError] = {}
            await self._piece(session, operation, ((0, request),), answers, pruning)
            return answers[0]
        statement = self._statements.get(alone.part)
        if statement is None:
            statement = self._statements[alone.part] = statement_sql(alone.part, self._schema)
        try:
            (row,) = await session.fetch(
                statement, *operation.values(request), pruning[0], session.left_ms()
            )
        except Exception as error:
            if not is_for_data(error):
                raise
            return store_error(error, session.place)
        return alone.answer(request, row)

    def _statement(self, operation: Operation[Any, Any]) -> str:
        """
        Return one and the same text for an operation each time; it is what connections know a statement by.
        """
        known = self._statements.get(operation.function)
        if known is None:
            known = self._statements[operation.function] = operation.statement(self._schema)
        return known

    async def _piece(
        self,
        session: Session,
        operation: Operation[Request, Answer],
        piece: Sequence[tuple[int, Request]],
        answers: dict[int, Answer | BackendError],
        pruning: tuple[int, int | None] | None = None,
    ) -> None:
        extra = (pruning or self._pruning()) if operation.prunes else ()
        try:
            rows = await session.fetch(
                self._statement(operation),
                *operation.arrays([request for _, request in piece]),
                *extra,
                session.left_ms(),
            )
        except Exception as error:
            if not is_for_data(error):
                raise
            # A trigger or a constraint of somebody's own, say. Nothing was changed; one item must not fail the others.
            if len(piece) == 1:
                answers[piece[0][0]] = store_error(error, session.place)
                return
            for item in piece:
                await self._piece(session, operation, (item,), answers)
            return
        for row in rows:
            index, request = piece[row["item"] - 1]
            answers[index] = operation.answer(request, row)
