<?php
// Answers the dynamic requests of the SPECweb99-like mix under PHP, byte for byte as specweb99.c does as a CGI program.

function refuse(int $status): never
{
    http_response_code($status);
    header('Content-Type: text/plain');
    exit("$status\n");
}

// A variable in so many characters, and without those that mean something in HTML.
function field(string $name, int $bytes): string
{
    $value = sprintf("%-{$bytes}.{$bytes}s", $_SERVER[$name] ?? '');
    return preg_replace('/[<>&"\'\x00-\x1f]/', '_', $value);
}

// The next advertisement after the last one seen that has enough in common with the visitor; -1 where there is none.
function advertisement(string $root, int $visitor, int $last): int
{
    $likes = file_get_contents("$root/specweb99/User.Personality", false, null, $visitor * 16, 16);
    $ads = file("$root/specweb99/Custom.Ads");
    if (!$ads || sscanf($likes, '%d %x', $number, $likes) !== 2) {
        return -1;
    }
    $count = count($ads);
    for ($step = 1; $step <= $count; $step++) {
        sscanf($ads[($last % $count + $step) % $count], '%d %x %d', $number, $wants, $least);
        if (substr_count(decbin($likes & $wants), '1') >= $least) {
            return $number;
        }
    }
    return -1;
}

// Writes the form to the log, and names the file that it asks for.
function post(string $root): string
{
    $shape = 'urlroot=/file_set/&dir=%5d&class=%1d&num=%1d&client=%10d';
    if (sscanf(file_get_contents('php://input', false, null, 0, 1024), $shape, $dir, $class, $num, $client) !== 4) {
        refuse(400);
    }
    $name = sprintf('/file_set/dir%05d/class%d_%d', $dir, $class, $num);
    $line = sprintf("%10d %10d %05d %1d %1d %10d %-40s\n", time(), getmypid(), $dir, $class, $num, $client, $name);
    if (file_put_contents("$root/specweb99/Post.Log", $line, FILE_APPEND) !== strlen($line)) {
        refuse(500);
    }
    return $name;
}

$root = $_SERVER['DOCUMENT_ROOT'];
$ad = 0;
if ($_SERVER['REQUEST_METHOD'] === 'POST') {
    $name = post($root);
    header('Set-Cookie: my_cookie=logged');
} else {
    $name = $_SERVER['QUERY_STRING'] ?? '';
}
if (sscanf($_SERVER['HTTP_COOKIE'] ?? '', 'my_cookie=user_id=%d&last_ad=%d', $visitor, $last) === 2) {
    $ad = advertisement($root, $visitor, $last);
    header("Set-Cookie: found_cookie=Ad_id=$ad");
}
if (!preg_match('#^/file_set/dir[0-9]{5}/class[0-9]_[0-9]$#D', $name) || !is_file($root . $name)) {
    refuse(404);
}
$page = "<html><head><title>SPECweb99-like</title></head><body>\n<p>" . field('SERVER_SOFTWARE', 32)
    . "\n<p>" . field('REMOTE_ADDR', 40) . "\n<p>" . field('SCRIPT_NAME', 40) . "\n<p>" . field('QUERY_STRING', 64)
    . sprintf("\n<p>ad %6d\n<pre>\n", $ad);
$end = "\n</pre></body></html>\n";
header('Content-Type: text/html');
header('Content-Length: ' . (strlen($page) + filesize($root . $name) + strlen($end)));
echo $page;
readfile($root . $name);
echo $end;
