<?php
// The least that a PHP script can do.
header('Content-Type: text/plain');
header('Content-Length: 6');
echo "hello\n";
