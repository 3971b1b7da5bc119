#!/bin/sh
printf 'Content-Type: text/plain\n\nsays %s' "$QUERY_STRING"
