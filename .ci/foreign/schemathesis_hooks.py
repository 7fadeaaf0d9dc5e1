"""Hooks of the schemathesis run."""

import itertools
import re
import uuid

import schemathesis

KEY = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_calls = itertools.count(1)


@schemathesis.hook
def before_call(context, case, **kwargs):
    """Gives each call of a sequence an Idempotency-Key of its own.

    The generator chooses few keys and few bodies. A key that an earlier sequence has used gets the stored
    answer of that sequence, which may have deleted the record since: schemathesis would report a record
    that is lost as soon as it is made. The other phases repeat keys, and bad keys stay as they are.
    """
    headers = case.headers or {}
    stateful = case.meta is not None and case.meta.phase.name == "stateful"
    if stateful and KEY.fullmatch(str(headers.get("Idempotency-Key", ""))):
        headers["Idempotency-Key"] = str(uuid.UUID(int=next(_calls)))
