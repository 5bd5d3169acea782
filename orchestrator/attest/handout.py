"""What a bundle tells a stranger: VERIFY.md and verify.sh. Both are rebuilt and compared in verification."""

from __future__ import annotations

from importlib import resources

from orchestrator.model.bundle import BundleCard
from orchestrator.model.statement import CheckpointPin

_LABELS = {
    "ephemeral-local": "a key that was made for this seal on the machine that ran the trials and thrown away after it. It shows that nothing changed since; it does not show who ran them.",
    "operator": "the operator's own key.",
}

_GUIDE = """# How to verify this bundle

Run `{run_id}`, sealed {sealed_at} by memtrial {version}.

Signing key: `{keyid}`
({label})

**Take the key id from where its owner publishes it, not from this file**: whoever can change this bundle can change this line.

## With memtrial

    memtrial verify . --keyid {keyid}

recomputes every verdict from the stored test reports, the plan from its inputs and `report.json` to the byte, and says what it did not check and why. Without `--keyid` or `--root` it can only say `self-consistent, not authenticated`. A public copy that leaves files out says so in `withheld.json`, which bears no signature; `--allow-withheld` verifies the rest, in part.

## With openssl, sha256sum and base64 alone

    sh verify.sh {keyid}

The same by hand, for the list of files and for the ledger's checkpoint; what it writes goes to a folder of its own, because a file more would break the seal:

    t=$(mktemp -d)
    openssl pkey -pubin -in keys/ledger.pub.pem -outform DER | sha256sum        # the key id
    sed -n 's/^{{"payload":"\\([^"]*\\)".*/\\1/p' SHA256SUMS.dsse.json | base64 -d > $t/payload
    sed -n 's/.*"sig":"\\([^"]*\\)".*/\\1/p' SHA256SUMS.dsse.json | base64 -d > $t/sig
    {{ printf 'DSSEv1 28 application/vnd.in-toto+json %s ' "$(wc -c < $t/payload | tr -d ' ')"; cat $t/payload; }} > $t/message
    openssl pkeyutl -verify -pubin -inkey keys/ledger.pub.pem -rawin -in $t/message -sigfile $t/sig
    sha256sum SHA256SUMS        # must be the digest in $t/payload
    sha256sum -c SHA256SUMS

    sed '/^$/,$d' checkpoint > $t/message
    sed -n '/^$/,$p' checkpoint | sed -n 's/^[^ ]* [^ ]* //p' | base64 -d | tail -c 64 > $t/sig
    openssl pkeyutl -verify -pubin -inkey keys/ledger.pub.pem -rawin -in $t/message -sigfile $t/sig

OpenSSL accepts weak keys that memtrial refuses; that is why the key id must come from outside.

## What this shows, and what not

- {records} records with root `{root}`. A ledger that was cut and signed anew is only seen by those who kept an earlier checkpoint: `memtrial verify . --checkpoint FILE`.
- The times are those of the machine's own clock.
- Raw test reports, and how containers ended, are the word of the machine that ran the trials: every figure is recomputed from them, and `memtrial verify` counts what else hangs on that word alone.
- Sigstore bundles, where there are any, repeat the statements for other tools. Under a project-owned instance they add no independent witness: the same people hold all keys.
- Root on the machine that ran the trials could have recorded anything before it was signed.

## Files

`plan.json` what was fixed before the run · `ledger.jsonl` the record · `blobs/` the bytes that it names (gzip where the name ends in .gz) · `checkpoint` size and root of the record, signed · `records/`, `proofs/`, `attestations/` per trial: its lines, their place in the tree, in-toto statements in DSSE envelopes (test result, SLSA provenance, account) · `attestations/run.intoto.jsonl` the summary · `report.json` · `sbom.cdx.json` software of environment and images, `materials.json` what it is made from · `SHA256SUMS` every file · `SHA256SUMS.dsse.json` the seal.
"""


def render_guide(card: BundleCard, checkpoint: CheckpointPin) -> bytes:
    """Returns VERIFY.md."""
    return _GUIDE.format(
        run_id=card.run_id,
        sealed_at=card.sealed_at,
        version=card.memtrial_version,
        keyid=card.key.keyid,
        label=_LABELS[card.key.label],
        records=checkpoint.size,
        root=checkpoint.root_sha256,
    ).encode()


def render_script() -> bytes:
    """Returns verify.sh, which is the same for every bundle."""
    return resources.files("orchestrator.attest").joinpath("verify.sh").read_bytes()
