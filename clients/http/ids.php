<?php
// Takes ids from any of three nodes over HTTP. docs/languages.md says what it does, and what to mind.
const NODES = ["http://localhost:8081", "http://localhost:8082", "http://localhost:8083"];

function next_ids(string $tag, int $count = 1): array
{
    $texts = next_texts($tag, $count);
    $ids = array_map(intval(...), $texts);
    // intval() makes 0 of INV-2026-000017.
    if (array_map(strval(...), $ids) !== $texts) {
        throw new UnexpectedValueException("ids of $tag are texts, such as $texts[0]: use next_texts");
    }
    return $ids;
}

function next_texts(string $tag, int $count = 1): array
{
    static $curl = null, $preferred = null;
    $curl ??= curl_init();
    $preferred ??= random_int(0, count(NODES) - 1);
    for ($attempt = 0; $attempt < 2 * count(NODES); $attempt++) {
        curl_setopt_array($curl, [
            CURLOPT_URL => NODES[$preferred] . "/v1/segment/" . rawurlencode($tag) . "?count=$count",
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_CONNECTTIMEOUT_MS => 1000,
            CURLOPT_TIMEOUT_MS => 2500,
        ]);
        $body = curl_exec($curl);
        $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
        if ($body !== false && $status === 200) {
            return json_decode($body, flags: JSON_THROW_ON_ERROR)->ids;
        }
        $failure = $body === false ? curl_error($curl) : "$status $body";
        if ($body !== false && $status < 500 && $status !== 429) {
            break;
        }
        $preferred = ($preferred + 1) % count(NODES);
        usleep(50_000 * $attempt);
    }
    throw new RuntimeException($failure);
}
