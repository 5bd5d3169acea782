"""Changes that no test should notice, each tied to the very place, and why.

An explanation that fits no place of the code, or more than one, is stale: it fails the tests and the proof. So
does one of a change that the tests do notice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.mutants_places import Place

ROOM = "orchestrator/trust/"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where (module below the room, function, whole line), what becomes of what, and why nobody notices.

    `nth` tells one of several places that read alike: which of how many, in the order of the listing.
    """

    module: str
    scope: str
    line: str
    before: str
    after: str
    why: str
    nth: tuple[int, int] = (1, 1)

    def fits(self, place: Place) -> bool:
        return (ROOM + self.module, self.scope, self.line, self.before, self.after, self.nth) == (
            place.module,
            place.scope,
            place.text,
            place.before,
            place.after,
            place.nth,
        )


AT_ONCE = "how much is read at once: what comes later is read the next time round"
COST = "a bound against cost: one more or less does"
READ = "while left > 0 and (piece := os.read(handle, min(left, 1 << 20))):"
LONG_AGO = "1 s after 1970 is as long ago as 0 s"
STDIN = "descriptor 0 is the standard input, which is open: no other file gets it"
EXPLAINED: tuple[Explanation, ...] = (
    Explanation(
        "ask.py", "ask_supervisor", "piece = connection.recv(65536)", "65536", "65537", AT_ONCE
    ),
    Explanation(
        "ceremony.py",
        "provision",
        "folder.mkdir(parents=True, exist_ok=True)",
        "folder.mkdir(parents=True, exist_ok=True)",
        "pass",
        "writing the first file makes its folder too",
    ),
    Explanation(
        "gate/documents.py",
        "check_commit",
        "check_commit_name(approval.approved_commit)",
        "check_commit_name(approval.approved_commit)",
        "pass",
        "the schema of approvals, read in step 8, lets nothing but a whole id through",
    ),
    Explanation(
        "manifest.py",
        "_manifest",
        "check(prefix)",
        "check(prefix)",
        "pass",
        "every file's reading checks the folders above it again",
    ),
    Explanation(
        "nonces.py",
        "NonceBook._read",
        "latest = max((line.at_s for line in lines), default=0)",
        "0",
        "1",
        "an empty book is no older at 1 s after 1970 than at 0 s",
    ),
    Explanation(
        "nonces.py",
        "NonceBook._read",
        'data = b"" if handle is None else os.pread(handle, MAX_BOOK_BYTES + 1, 0)',
        "1",
        "2",
        "any byte beyond the bound tells that the book is too large",
    ),
    Explanation(
        "plumbing.py",
        "Objects._more",
        "piece = os.read(self._said.fileno(), 1 << 20)",
        "1",
        "2",
        AT_ONCE,
    ),
    Explanation(
        "plumbing.py",
        "Objects._more",
        "piece = os.read(self._said.fileno(), 1 << 20)",
        "20",
        "21",
        AT_ONCE,
    ),
    Explanation(
        "root/client.py",
        "_ask_client",
        "updater.refresh()",
        "updater.refresh()",
        "pass",
        "the client refreshes by itself when it is first asked for a target",
    ),
    Explanation(
        "root/make.py",
        "load",
        'numbers = [int(p.name.split(".", 1)[0]) for p in metadata.glob("[0-9]*.root.json")]',
        "1",
        "2",
        "only what stands before the first dot is taken",
    ),
    Explanation("trusted.py", "_pieces", READ, "1", "2", AT_ONCE),
    Explanation("trusted.py", "_pieces", READ, "20", "21", AT_ONCE),
    Explanation(
        "trusted.py",
        "_pieces",
        "left = max_bytes + 1",
        "1",
        "2",
        "any byte beyond the bound tells that the file grew while it was read",
    ),
    Explanation(
        "trusted.py",
        "_pieces",
        READ,
        "left > 0",
        "left >= 0",
        "where nothing is left, nothing is read",
    ),
    Explanation(
        "trusted.py",
        "_pieces",
        READ,
        "0",
        "1",
        "a byte beyond the size that was asked for changes the file's version too",
    ),
    Explanation(
        "trusted.py",
        "_opened",
        "os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK,",
        "os.O_RDONLY | os.O_NOFOLLOW",
        "os.O_RDONLY & os.O_NOFOLLOW",
        "the kernel's rules of resolution refuse a link at the end as well",
    ),
    Explanation("trusted.py", "openat2", "if handle < 0:", "0", "1", STDIN),
    Explanation("trusted.py", "_opened", "if descriptor >= 0:", "0", "1", STDIN),
    Explanation(
        "trusted.py",
        "_opened",
        "folder = handle = -1",
        "1",
        "2",
        "any negative number is no descriptor",
    ),
    Explanation(
        "trusted.py",
        "_opened",
        'root = os.open("/", os.O_PATH | os.O_DIRECTORY)',
        "os.O_PATH | os.O_DIRECTORY",
        "os.O_PATH & os.O_DIRECTORY",
        "a descriptor of / that could also be read leads below it in the same way",
    ),
    Explanation(
        "gate/official.py",
        "_run",
        "number = 0",
        "0",
        "1",
        "the first step's number is set before the step begins, and nothing else can fail",
    ),
    Explanation(
        "plumbing.py",
        "Objects.get",
        'raise _refuse("git-failed", "git to answer", error.strerror or "its end") from error',
        "raise _refuse('git-failed', 'git to answer', error.strerror or 'its end') from error",
        "pass",
        "what an ended git does not take it does not answer either: the next read refuses by the same code",
    ),
    Explanation(
        "plumbing.py",
        "Objects._line",
        'while b"\\n" not in self._read and len(self._read) <= MAX_HEAD_BYTES:',
        "len(self._read) <= MAX_HEAD_BYTES",
        "len(self._read) < MAX_HEAD_BYTES",
        COST,
    ),
    Explanation(
        "repository.py",
        "_parse_tree",
        "if not at < space < end or end + 21 > len(body):",
        "at < space < end",
        "at < space <= end",
        "no byte is a space and a NUL",
    ),
    Explanation(
        "root/client.py",
        "_updater",
        "max_root_rotations=MAX_ROOTS, max_delegations=2, root_max_length=MAX_BYTES",
        "2",
        "3",
        "metadata with more than the one delegation is refused for its shape before the client sees it",
    ),
    Explanation(
        "trusted.py", "_opened", "if descriptor >= 0:", "descriptor >= 0", "descriptor > 0", STDIN
    ),
    Explanation(
        "trusted.py",
        "_opened",
        'root, str(path.parent).lstrip("/") or ".", os.O_PATH | os.O_DIRECTORY, plain',
        "os.O_PATH | os.O_DIRECTORY",
        "os.O_PATH & os.O_DIRECTORY",
        "a folder that could also be read leads to its files in the same way",
    ),
    Explanation(
        "trusted.py",
        "_opened",
        '}.get(error.errno or 0, "file-not-opened")',
        "0",
        "1",
        "neither number has a code of its own",
    ),
    Explanation("trusted.py", "openat2", "if handle < 0:", "handle < 0", "handle <= 0", STDIN),
    Explanation(
        "ask.py",
        "ask_supervisor",
        "if left_s <= 0:",
        "0",
        "1",
        "how long one waits: a second less of many does",
    ),
    Explanation(
        "repository.py",
        "packed_refs",
        "data = _small(path, MAX_PACKED_BYTES + 1)",
        "1",
        "2",
        "any byte beyond the bound tells that the file is too large",
    ),
    Explanation(
        "root/make.py",
        "next_version",
        "part.expires = max(part.expires, _later(now_s, life_s), _later(until_s or 0, 0))",
        "0",
        "1",
        LONG_AGO,
        (2, 2),
    ),
    Explanation(
        "gate/official.py",
        "_write",
        'number=number, name=name, status="ok" if number < stopped else "not_run"',
        "number < stopped",
        "number <= stopped",
        "the step at which it stopped is told apart before",
    ),
    Explanation(
        "ceremony.py",
        "_alone",
        "handle = os.open(approvals, os.O_RDONLY | os.O_DIRECTORY)",
        "os.O_RDONLY | os.O_DIRECTORY",
        "os.O_RDONLY & os.O_DIRECTORY",
        "it is made as a folder, or seen to hold something, just before",
    ),
    Explanation(
        "root/client.py",
        "_ask_client",
        "updater._trusted_set.reference_time = datetime.fromtimestamp(0, UTC)  # noqa: SLF001",
        "0",
        "1",
        LONG_AGO,
    ),
    Explanation(
        "root/client.py",
        "read_root",
        "expires_s=_expiry_s(verified, 0 if lapsed else now_s),",
        "0",
        "1",
        LONG_AGO,
    ),
    Explanation(
        "root/client.py",
        "_updater",
        '(folder / "targets").mkdir()',
        "(folder / 'targets').mkdir()",
        "pass",
        "the client makes the folder of what it downloads",
    ),
    Explanation("root/client.py", "RootState", "high_water_s: int = 0", "0", "1", LONG_AGO),
)


def why_unnoticed(place: Place, explained: Sequence[Explanation] = EXPLAINED) -> str | None:
    """Returns why a change may go unnoticed, if that is explained."""
    return next((one.why for one in explained if one.fits(place)), None)


def stale(places: Sequence[Place], explained: Sequence[Explanation] = EXPLAINED) -> list[str]:
    """Returns the explanations that do not fit exactly one place of the code, with how many they fit."""
    found = []
    for one in explained:
        fitting = sum(one.fits(place) for place in places)
        if fitting != 1:
            found.append(
                f"{one.module} {one.scope}: {one.line!r}: {one.before} fits {fitting} places"
            )
    return found
