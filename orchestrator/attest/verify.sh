#!/bin/sh
# Checks this bundle with openssl, sha256sum and base64 alone: who signed it, that every file is the signed
# one and none was added, the ledger's checkpoint, and every statement. It recomputes no verdict:
# `memtrial verify` does that. Writes only into a temporary folder of its own.
#
# usage: sh verify.sh KEYID      (the key id that the publisher printed outside this bundle)
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname -- "$0")"

no() {
    echo "verify.sh: NO: $1" >&2
    exit 1
}

[ $# -eq 1 ] || {
    echo "verify.sh: expected the key id of the publisher, found $# words; next: sh verify.sh KEYID" >&2
    exit 2
}
key=keys/ledger.pub.pem
type=application/vnd.in-toto+json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Takes the one envelope in $1 apart, checks its signature, leaves its payload in $work/payload.
envelope() {
    form='^{"payload":"\([A-Za-z0-9+/=]*\)","payloadType":"'$type'","signatures":\[{"keyid":"'$keyid'","sig":"\([A-Za-z0-9+/=]*\)"}\]}$'
    [ "$(grep -c "$form" "$1")" = 1 ] || no "$2: not one envelope by key $keyid"
    sed -n "s|$form|\1|p" "$1" | base64 -d > "$work/payload" || no "$2: payload is not base64"
    sed -n "s|$form|\2|p" "$1" | base64 -d > "$work/sig" || no "$2: signature is not base64"
    {
        printf 'DSSEv1 %s %s %s ' "${#type}" "$type" "$(wc -c < "$work/payload" | tr -d ' ')"
        cat "$work/payload"
    } > "$work/message"
    openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$work/message" -sigfile "$work/sig" > "$work/log" 2>&1 ||
        no "$2: the signature does not verify"
}

[ -z "$(find . ! -type f ! -type d)" ] || no "something is neither file nor folder"

keyid=$(openssl pkey -pubin -in "$key" -outform DER | sha256sum | cut -c1-64)
[ "$keyid" = "$1" ] || no "key: expected $1, found $keyid"

envelope SHA256SUMS.dsse.json SHA256SUMS.dsse.json
sums=$(sha256sum < SHA256SUMS | cut -c1-64)
grep -qF '"predicateType":"urn:memtrial:predicate:bundle-seal:v1","subject":[{"digest":{"sha256":"'"$sums"'"},"name":"SHA256SUMS"}]' "$work/payload" ||
    no "SHA256SUMS: not the list that was sealed"

sed 's/^.\{64\}  //' SHA256SUMS > "$work/names"
{ cat "$work/names"; printf 'SHA256SUMS\nSHA256SUMS.dsse.json\n'; } > "$work/known"
if [ -f withheld.json ]; then echo withheld.json >> "$work/known"; fi
find . -type f | sed 's|^\./||' | grep -Fxv -f "$work/known" > "$work/added" || :
[ ! -s "$work/added" ] || no "not in SHA256SUMS: $(sed q "$work/added")"

files=0
withheld=0
: > "$work/present"
while read -r digest name; do
    if [ -f "$name" ]; then
        printf '%s  %s\n' "$digest" "$name" >> "$work/present"
        files=$((files + 1))
    elif [ -f withheld.json ] && grep -qF '{"path":"'"$name"'","sha256":"'"$digest"'"}' withheld.json; then
        withheld=$((withheld + 1))
    else
        no "$name: is missing"
    fi
done < SHA256SUMS
sha256sum -c "$work/present" > "$work/log" 2>&1 || no "$(grep -v ': OK$' "$work/log" | sed q)"

sed '/^$/,$d' checkpoint > "$work/message"
sed -n '/^$/,$p' checkpoint | sed -n 's/^[^ ]* [^ ]* //p' | sed q | base64 -d | tail -c 64 > "$work/sig"
openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$work/message" -sigfile "$work/sig" > "$work/log" 2>&1 ||
    no "checkpoint: the signature does not verify"

statements=0
for file in attestations/*.intoto.jsonl; do
    while IFS= read -r line; do
        printf '%s\n' "$line" > "$work/one"
        envelope "$work/one" "$file"
        statements=$((statements + 1))
    done < "$file"
done
echo "verify.sh: ok: key $keyid signed this bundle: $files files, $statements statements, 1 checkpoint of $(sed -n 2p checkpoint) records; $withheld files withheld on purpose"
