"""
Names: whatever differs by one character, one namespace or one millisecond is something else.
"""

from __future__ import annotations

from anarchon.backend import Verdict
from anarchon.errors import BackendError
from anarchon.records import Status
from anarchon_conformance.harness import Bench
from anarchon_conformance.marking import clause

_ALIKE = (
    "job",
    "Job",
    "JOB",
    "job ",
    " job",
    "jo",
    "jobs",
    "job.",
    "job.*",
    "job.>",
    "job-",
    "job_",
    "job%",
    "job:",
    "job:1",
    "job/",
    "job//",
    "job\\",
    "job'",
    'job"',
    "job`",
    "{job}",
    "$job",
    "job#",
    "job?",
    "j\u00f6b",
    "jo\u0308b",
    "\u212aob",
    "Kob",
    "kob",
    "\ufb01b",
    "fib",
    "stra\u00dfe",
    "strasse",
    "\u4efb\u52a1",
    "\U0001f4a5",
    "0",
    "00",
)


@clause("NAM-1")
async def test_similar_names_never_touch(bench: Bench) -> None:
    """
    Each of them is claimed, finished and listed as if the others did not exist.
    """
    async with bench.world() as world:
        instance, reader = await world.two()
        slot = world.slot(1)
        longest = "x" * (bench.capabilities.name_bytes_max - 1)
        names = [*_ALIKE, longest, f"{longest}a", f"{longest}b"]
        tokens = {}
        for name in names:
            tokens[name] = await instance.win(slot, job=name)
        for name in names[::2]:
            await instance.finish(slot, tokens[name], job=name)
        told = {}
        for name in names:
            told[name] = [(each.job, each.status) for each in await reader.history(name)]
        expected = {
            name: [(name, Status.RUNNING if index % 2 else Status.SUCCESS)]
            for index, name in enumerate(names)
        }

        assert expected == told
        assert sorted(names) == sorted(each.job for each in await reader.history(None))


@clause("NAM-2")
async def test_long_name_is_never_cut(bench: Bench) -> None:
    """
    Two names that differ in their last character alone, beyond the limit, are refused or kept apart.
    """
    async with bench.world() as world:
        instance = await world.join()
        limit = bench.capabilities.name_bytes_max
        for stem in ("x" * limit, "\u00e9" * (limit // 2 + 1)):
            outcomes = []
            for end in ("a", "b"):
                request = instance.claim_request(world.slot(1), job=stem + end)
                answer = (await instance.claims([request]))[0]
                if isinstance(answer, BackendError):
                    outcomes.append("refused")
                    continue
                kept = [each.job for each in await instance.history(stem + end)]
                outcomes.append("kept" if kept == [stem + end] else f"changed to {kept!r}")

                assert Verdict.WON == answer.verdict

            assert outcomes in (["refused"] * 2, ["kept"] * 2), stem[:8]
        longest = "\u00e9" * (limit // 2)
        token = await instance.win(world.slot(1), job=longest)

        assert (await instance.finish(world.slot(1), token, job=longest)).accepted
        assert [longest] == [each.job for each in await instance.history(longest)]


@clause("NAM-3")
async def test_namespaces_share_nothing(bench: Bench) -> None:
    """
    Two services on one store, with jobs of the same name, do not know of each other.
    """
    async with bench.world() as world, bench.world() as elsewhere:
        instance, stranger = await world.join(), await elsewhere.join()
        slot = world.slot(1)
        token = await instance.win(slot)
        empty = [len(await stranger.history()), len(await stranger.history(None))]
        refused = await stranger.finish(slot, token)
        claimed = await stranger.claim(slot)

        assert [0, 0] == empty
        assert not refused.accepted
        assert Verdict.WON == claimed.verdict
        assert Status.RUNNING == (await instance.record(slot)).status
        assert (await instance.finish(slot, token)).accepted


@clause("NAM-3")
async def test_namespaces_that_begin_alike_share_nothing(bench: Bench) -> None:
    """
    A prefix of a prefix is another prefix.
    """
    short = bench.namespace()
    async with bench.world(namespace=short) as world, bench.world(namespace=f"{short}-a") as other:
        instance, stranger = await world.join(), await other.join()
        await instance.win(world.slot(1), job="a-job")
        claimed = await stranger.claim(world.slot(1), job="job")

        assert Verdict.WON == claimed.verdict
        assert 1 == len(await instance.history(None))
        assert 1 == len(await stranger.history(None))


@clause("NAM-4")
async def test_any_instance_id_is_kept(bench: Bench) -> None:
    """
    What people are shown is what the instance calls itself.
    """
    async with bench.world() as world:
        labels = [
            "host-1.example.org:4711",
            'it\'s "me" {0} %s',
            "Gr\u00fc\u00dfe \U0001f4a5",
            " blank ",
            "x" * 200,
        ]
        told = []
        for index, label in enumerate(labels):
            instance = await world.join(label)
            await instance.win(world.slot(1), job=f"job-{index}")
            told.append((await instance.record(world.slot(1), job=f"job-{index}")).instance_id)

        assert labels == told


@clause("NAM-5")
async def test_slots_are_exact(bench: Bench) -> None:
    """
    Neighbouring milliseconds are two slots, at the beginning of time too where a store's memory reaches back.
    """
    async with bench.world() as world:
        instance = await world.join()
        first = [] if bench.capabilities.claim_memory_ms else [0, 1]
        slots = [*first, world.slot(1), world.slot(1) + 1, world.slot(1) + 2]
        for slot in slots:
            token = await instance.win(slot)
            await instance.finish(slot, token)

        assert slots[::-1] == [record.slot for record in await instance.history()]
