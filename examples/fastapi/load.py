"""Asks the service with and without Hopcache from several clients, and draws what they saw.

usage: load.py --before URL --after URL [OPTION…]
       load.py --draw load.csv

The two services take turns, round by round. Round 0 warms both and is not drawn. A client asks what the page of a person
shows: half of the reads are for introductions, a quarter for suggestions, a quarter for name and city. It chooses the person by
Zipf's law: person n as often as 1/n. Of the writes, --friendships percent make a friendship or end it again (two who knew each
other before do not afterwards), and every one of them ends all introductions and suggestions in the cache. The others note when a
person was seen, which no read here reads. Both services get the same requests: each client draws them from a seed of its own.

Writes to the folder --out: requests.csv, a line for each request; load.csv, what of them is drawn; and load.svg, drawn from load.csv.
"""
import argparse
import csv
import http.client
import os
import random
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

SIDES = ("before", "after")
# People of the sample graph. Clients ask about the first of them; the others become friends and strangers again.
PEOPLE = 2000
READS = "introductions=2,suggestions=1,person=1"
TITLES = {"before": "Neo4j alone", "after": "Hopcache before Neo4j"}
COLOURS = {"before": "#b45309", "after": "#1d4ed8"}
PERCENTILES = (50, 75, 90, 95, 99, 99.9)
FIELDS = ("side", "round", "at_s", "kind", "status", "ms", "cache")


def arguments():
    parser = argparse.ArgumentParser(description="load of the FastAPI example, with and without Hopcache")
    parser.add_argument("--before", metavar="URL", help="the service at Neo4j")
    parser.add_argument("--after", metavar="URL", help="the service at Hopcache")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="draw this load.csv again, and ask nothing")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each round, at each service")
    parser.add_argument("--rounds", type=int, default=3, help="that are drawn; one more warms both services")
    parser.add_argument("--people", type=int, default=500, help="how many people the clients ask about")
    parser.add_argument("--reads", default=READS, help="the kinds of reads, and how often each comes")
    parser.add_argument("--writes", type=float, default=1.0, help="percent of the requests")
    parser.add_argument("--friendships", type=float, default=100.0, help="percent of the writes; the others end no entry")
    parser.add_argument("--out", type=Path, default=Path("load"))
    options = parser.parse_args()
    if not options.draw and not (options.before and options.after):
        parser.error("name two services (--before, --after), or a file to draw (--draw)")
    options.kinds = {kind: int(often) for kind, often in (each.split("=") for each in options.reads.split(","))}
    return options


class Client:
    """One connection that asks one request after the other."""

    def __init__(self, options, side, turn, number):
        self.address = urlsplit(getattr(options, side)).netloc
        self.options, self.side, self.turn, self.number = options, side, turn, number
        self.dice = random.Random(f"{turn} {number}")
        self.weights = [1 / (rank + 1) for rank in range(options.people)]
        self.made = None
        self.seen = []

    def request(self):
        if self.dice.random() * 100 < self.options.writes:
            return self.write()
        (person,) = self.dice.choices(range(self.options.people), self.weights)
        (kind,) = self.dice.choices(list(self.options.kinds), self.options.kinds.values())
        return kind, "GET", f"/people/{person}" if kind == "person" else f"/people/{person}/{kind}"

    def write(self):
        """Makes a friendship, and ends it at the next one; or notes that a person was seen. Two clients never write the same."""
        if self.dice.random() * 100 >= self.options.friendships:
            person = self.dice.randrange(self.options.people // self.options.clients) * self.options.clients
            return "write", "PUT", f"/people/{person + self.number}/seen"
        return self.befriend()

    def befriend(self):
        if self.made:
            path, self.made = self.made, None
            return "write", "DELETE", path
        person = self.dice.randrange(self.options.people)
        clients = self.options.clients
        place = self.dice.randrange((PEOPLE - self.options.people) // clients)
        self.made = f"/people/{person}/friends/{self.options.people + place * clients + self.number}"
        return "write", "PUT", self.made

    def run(self, begin):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        while (at := time.monotonic() - begin) < self.options.seconds:
            self.ask(connection, at, *self.request())
        if self.made:
            self.ask(connection, time.monotonic() - begin, *self.befriend())
        connection.close()

    def ask(self, connection, at, kind, method, path):
        start = time.perf_counter()
        connection.request(method, path)
        response = connection.getresponse()
        response.read()
        ms = (time.perf_counter() - start) * 1000
        cache = response.headers.get("x-cache", "")
        self.seen.append((self.side, self.turn, f"{at:.4f}", kind, response.status, f"{ms:.3f}", cache))


def ask_all(options, side, turn):
    clients = [Client(options, side, turn, number) for number in range(options.clients)]
    begin = time.monotonic()
    threads = [threading.Thread(target=client.run, args=(begin,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [request for client in clients for request in client.seen]


def percentile(values, share):
    """Of sorted values: the smallest that is not less than the share of them."""
    return values[min(len(values) - 1, int(len(values) * share / 100))]


class Side:
    """What the clients of one service saw in the rounds that are drawn."""

    def __init__(self, name):
        self.name, self.rates, self.ms, self.hits, self.failed = name, [], {}, None, 0

    @classmethod
    def of_requests(cls, name, options, requests):
        side = cls(name)
        reads = [request for request in requests if request[3] != "write"]
        ms = sorted(float(request[5]) for request in reads)
        side.ms = {share: percentile(ms, share) for share in PERCENTILES}
        side.rates = [0] * (options.rounds * int(options.seconds))
        for _, turn, at, *_ in requests:
            if float(at) < int(options.seconds):
                side.rates[(turn - 1) * int(options.seconds) + int(float(at))] += 1
        if any(request[6] for request in reads):
            side.hits = sum(request[6] == "hit" for request in reads) / len(reads)
        side.failed = sum(request[4] >= 400 for request in requests)
        return side

    def rows(self):
        """The lines of load.csv."""
        yield from ((self.name, "requests in second", second, rate) for second, rate in enumerate(self.rates))
        yield from ((self.name, "read ms at percentile", share, f"{ms:.3f}") for share, ms in self.ms.items())
        if self.hits is not None:
            yield self.name, "share of hits", "", f"{self.hits:.4f}"
        yield self.name, "failed", "", self.failed

    def take(self, figure, at, value):
        if figure == "requests in second":
            self.rates.append(int(value))
        elif figure == "read ms at percentile":
            self.ms[float(at)] = float(value)
        elif figure == "share of hits":
            self.hits = float(value)
        elif figure == "failed":
            self.failed = int(value)

    def told(self):
        per_second = sum(self.rates) / len(self.rates)
        shown = ", ".join(f"P{share:g} {self.ms[share]:.1f} ms" for share in (50, 90, 99))
        hits = "" if self.hits is None else f"; {self.hits:.0%} hits"
        return f"{per_second:.0f} requests/s; reads {shown}{hits}; {self.failed} failed"


class Panel:
    """A plot with its frame: places values in a rectangle of the picture."""

    WIDTH, HEIGHT, TOP = 360, 220, 86

    def __init__(self, left, title, columns, rows):
        self.left, self.columns = left, columns
        self.top_value = rows[-1][0]
        bottom = self.TOP + self.HEIGHT
        self.parts = [f'<text x="{left}" y="{self.TOP - 14}" font-weight="bold">{title}</text>']
        for value, label in rows:
            y = self.y(value)
            self.parts.append(f'<path d="M{left} {y:.1f}h{self.WIDTH}" stroke="#ddd"/>')
            self.parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
        for place, label in columns:
            self.parts.append(f'<text x="{self.x(place):.1f}" y="{bottom + 18}" text-anchor="middle">{label}</text>')

    def x(self, share):
        return self.left + share * self.WIDTH

    def y(self, value):
        return self.TOP + self.HEIGHT * (1 - value / self.top_value)

    def line(self, colour, points):
        path = " ".join(f"{self.x(share):.1f},{self.y(value):.1f}" for share, value in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')


def even(count):
    """The places of `count` columns, from the left to the right border."""
    return [place / max(count - 1, 1) for place in range(count)]


def rows(most):
    """Five lines from 0 to a round number that is not less than `most`."""
    step = 10 ** (len(str(int(most))) - 1)
    top = next(step * times for times in (1, 2, 4, 6, 8, 10) if step * times >= most)
    return [(top * quarter / 4, f"{top * quarter / 4:g}") for quarter in range(5)]


def picture(about, sides):
    most = max(max(side.rates) for side in sides)
    seconds = len(sides[0].rates)
    columns = [(0, "0"), (1, f"{seconds} s")]
    rate = Panel(70, "requests/s, each second", columns, rows(most))
    slowest = max(side.ms[PERCENTILES[-1]] for side in sides)
    columns = list(zip(even(len(PERCENTILES)), (f"P{share:g}" for share in PERCENTILES)))
    time_of = Panel(520, "time of a read, ms", columns, rows(slowest))
    legend = []
    for place, side in enumerate(sides):
        rate.line(COLOURS[side.name], zip(even(seconds), side.rates))
        of_reads = [side.ms[share] for share in PERCENTILES]
        time_of.line(COLOURS[side.name], zip(even(len(PERCENTILES)), of_reads))
        y = 356 + 20 * place
        legend.append(f'<path d="M70 {y - 4}h24" stroke="{COLOURS[side.name]}" stroke-width="3"/>')
        legend.append(f'<text x="102" y="{y}">{TITLES[side.name]}: {side.told()}</text>')
    return "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 910 396" font-family="sans-serif" font-size="12" fill="#333">',
        '<rect width="910" height="396" fill="#fff"/>',
        '<text x="70" y="24" font-size="15">A FastAPI service, before and after</text>',
        f'<text x="70" y="42">{about}</text>',
        *rate.parts, *time_of.parts, *legend, "</svg>\n",
    ])


def about(options):
    writes = f"{options.writes:g} % writes ({options.friendships:g} % of them friendships)"
    bookmarks = os.environ.get("BOOKMARKS", "shared")
    return f"{options.clients} clients, reads {options.reads}, {writes}, {options.people} people by Zipf's law, bookmarks {bookmarks}"


def draw(file):
    """What is in a load.csv, as a picture and by side."""
    with open(file, newline="", encoding="utf-8") as lines:
        _, *read = csv.reader(lines)
    text = next(value for side, figure, _, value in read if figure == "about")
    sides = [Side(name) for name in SIDES]
    for name, *figure in read:
        if name in SIDES:
            sides[SIDES.index(name)].take(*figure)
    return picture(text, sides), sides


def measure(options):
    requests = []
    for turn in range(options.rounds + 1):
        for side in SIDES:
            requests.extend(ask_all(options, side, turn))
    drawn = [Side.of_requests(name, options, [each for each in requests if each[0] == name and each[1] > 0]) for name in SIDES]
    options.out.mkdir(parents=True, exist_ok=True)
    with open(options.out / "requests.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([FIELDS, *requests])
    with open(options.out / "load.csv", "w", newline="", encoding="utf-8") as file:
        told = [("side", "figure", "at", "value"), ("both", "about", "", about(options))]
        csv.writer(file).writerows([*told, *(row for side in drawn for row in side.rows())])
    print(f"{options.out / 'requests.csv'}: {len(requests)} requests")
    return options.out / "load.csv"


def main():
    options = arguments()
    file = options.draw or measure(options)
    drawing, sides = draw(file)
    file.with_suffix(".svg").write_text(drawing, encoding="utf-8")
    for side in sides:
        print(f"{TITLES[side.name]}: {side.told()}")
    print(file.with_suffix(".svg"))
    if any(side.failed for side in sides):
        raise SystemExit("load.py: requests failed")


main()
