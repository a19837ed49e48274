# Takes ids from any of three nodes over HTTP. docs/languages.md says what it does, and what to mind.
import time
from urllib.parse import quote

import requests

NODES = ["http://localhost:8081", "http://localhost:8082", "http://localhost:8083"]
session = requests.Session()
preferred = 0


def next_ids(tag, count=1):
    texts = next_texts(tag, count)
    # Ids that are texts have been taken all the same: a retry would waste more.
    if not all(text.isdigit() for text in texts):
        raise ValueError(f"ids of {tag} are texts, such as {texts[0]}: use next_texts")
    return [int(text) for text in texts]


def next_texts(tag, count=1):
    global preferred
    for attempt in range(2 * len(NODES)):
        at = preferred
        try:
            answer = session.get(
                f"{NODES[at]}/v1/segment/{quote(tag, safe='')}",
                params={"count": count},
                timeout=(1, 2.5),
            )
            if answer.status_code < 500 and answer.status_code != 429:
                answer.raise_for_status()
                return answer.json()["ids"]
            failure = requests.HTTPError(answer.text, response=answer)
        except requests.HTTPError:
            raise
        except (requests.RequestException, ValueError) as error:
            failure = error
        preferred = (at + 1) % len(NODES)
        time.sleep(0.05 * attempt)
    raise failure
