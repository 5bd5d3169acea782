#!/bin/sh
# Checks this bundle with openssl, sha256sum and base64 alone: who signed it, that every file is the signed
# one and none was added, the ledger's checkpoint, and every statement. It recomputes no verdict:
# `memtrial verify` does that. Writes only into a temporary folder of its own.
#
# usage: sh verify.sh KEYID [--allow-withheld]
#   KEYID             the key id that the publisher printed outside this bundle
#   --allow-withheld  this is a public copy that leaves blobs out; the list of them bears no signature
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname -- "$0")"

no() {
    echo "verify.sh: NO: $1" >&2
    exit 1
}

allow=no
if [ $# -eq 2 ] && [ "$2" = --allow-withheld ]; then allow=yes; else
    [ $# -eq 1 ] || {
        echo "verify.sh: expected the key id of the publisher, found $# words; next: sh verify.sh KEYID" >&2
        exit 2
    }
fi
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
[ -z "$(find . -type d -empty)" ] || no "an empty folder, which no list can name"
newline='
'
[ -z "$(find . -name "*$newline*")" ] || no "a file's name has a line break"

keyid=$(openssl pkey -pubin -in "$key" -outform DER | sha256sum | cut -c1-64)
[ "$keyid" = "$1" ] || no "key: expected $1, found $keyid"

envelope SHA256SUMS.dsse.json SHA256SUMS.dsse.json
sums=$(sha256sum < SHA256SUMS | cut -c1-64)
grep -qF '"predicateType":"urn:memtrial:predicate:bundle-seal:v1","subject":[{"digest":{"sha256":"'"$sums"'"},"name":"SHA256SUMS"}]' "$work/payload" ||
    no "SHA256SUMS: not the list that was sealed"

sed 's/^.\{64\}  //' SHA256SUMS > "$work/names"
{ cat "$work/names"; printf 'SHA256SUMS\nSHA256SUMS.dsse.json\n'; } > "$work/known"
if [ -f withheld.json ]; then
    [ "$allow" = yes ] || no "withheld.json: blobs are withheld by a list that bears no signature; if the publisher says so: sh verify.sh KEYID --allow-withheld"
    part='{"path":"blobs/[0-9a-f]\{2\}/[0-9a-f]\{64\}\(\.gz\)\{0,1\}","sha256":"[0-9a-f]\{64\}"}'
    grep -qx '{"files":\['"$part"'\(,'"$part"'\)*\],"schema_version":1}' withheld.json || no "withheld.json: not a list of blobs in its one form"
    echo withheld.json >> "$work/known"
fi
find . -type f | sed 's|^\./||' | grep -Fxv -f "$work/known" > "$work/added" || :
[ ! -s "$work/added" ] || no "not in SHA256SUMS: $(sed q "$work/added")"

files=0
withheld=0
: > "$work/present"
while read -r digest name; do
    if [ -f "$name" ]; then
        printf '%s  %s\n' "$digest" "$name" >> "$work/present"
        files=$((files + 1))
    elif [ -f withheld.json ] && [ "${name#blobs/}" != "$name" ] && grep -qF '{"path":"'"$name"'","sha256":"'"$digest"'"}' withheld.json; then
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
