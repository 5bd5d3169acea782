// Verifies sigstore bundles with the JavaScript client. Usage: node interop.mjs TRUST_CONFIG IDENTITY ISSUER BUNDLE...
// Prints one JSON line per bundle: name, accepted, and why not. Run by bench/interop.py where the packages are.
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { bundleFromJSON } from "@sigstore/bundle";
import { TrustedRoot } from "@sigstore/protobuf-specs";
import { Verifier, toSignedEntity, toTrustMaterial } from "@sigstore/verify";

const [config, identity, issuer, ...bundles] = process.argv.slice(2);
const root = TrustedRoot.fromJSON(JSON.parse(readFileSync(config, "utf8")).trustedRoot);
const verifier = new Verifier(toTrustMaterial(root));
for (const path of bundles) {
  let why = "";
  try {
    const bundle = bundleFromJSON(JSON.parse(readFileSync(path, "utf8")));
    verifier.verify(toSignedEntity(bundle), { subjectAlternativeName: identity, extensions: { issuer } });
  } catch (error) {
    why = `${error.code ?? error.name}: ${error.message}`;
  }
  console.log(JSON.stringify({ name: basename(path), accepted: why === "", why }));
}
