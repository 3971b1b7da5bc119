"""validate.py SCHEMAS CRDS FILE...: checks manifests against the strict schemas of Kubernetes, and those of definitions in CRDS.

It prints every document as a line of JSON, or each error on standard error.
"""

import json
import pathlib
import sys

import jsonschema
import yaml

DEFINITIONS = "_definitions.json"


def strict(node):
    """Unknown fields are errors."""
    if isinstance(node, dict):
        if "properties" in node:
            node.setdefault("additionalProperties", False)
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            strict(part)


def defined(crds):
    """The schemas of custom resources, by version and kind."""
    found = {}
    for path in pathlib.Path(crds).glob("*-crd.json"):
        spec = json.loads(path.read_text())["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            strict(schema)
            schema["properties"]["metadata"] = {"type": "object"}
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def main():
    schemas, crds, *files = sys.argv[1:]
    schemas, custom = pathlib.Path(schemas), defined(crds)
    definitions = json.loads((schemas / DEFINITIONS).read_text())
    store = {f"https://kubernetes.io/api/{DEFINITIONS}": definitions, definitions.get("$id", ""): definitions}
    wrong = False
    for file in files:
        for document in yaml.safe_load_all(pathlib.Path(file).read_text()):
            version, kind = document["apiVersion"], document["kind"]
            schema = custom.get((version, kind))
            if schema is None:
                group, _, number = version.rpartition("/")
                name = "-".join(part for part in [kind.lower(), group.split(".")[0], number] if part)
                schema = json.loads((schemas / f"{name}.json").read_text())
            resolver = jsonschema.RefResolver(schema.get("$id", ""), schema, store=store)
            for error in jsonschema.Draft7Validator(schema, resolver=resolver).iter_errors(document):
                wrong = True
                place = ".".join(map(str, error.absolute_path))
                print(f"{file}: {kind}: {place}: {error.message}", file=sys.stderr)
            print(json.dumps(document))
    sys.exit(wrong)


main()
