"""Asks the service with and without Hopcache from several clients, and draws what they saw.

usage: load.py --before URL --after URL [OPTION…]

The two services take turns, round by round. Round 0 warms both and is not drawn. A client asks what the page of a person
shows: half of the reads are for introductions, a quarter for suggestions, a quarter for name and city. It chooses the person by
Zipf's law: person n as often as 1/n. Of the writes, --friendships percent make a friendship or end it again (two who knew each
other before do not afterwards), and every one of them ends all introductions and suggestions in the cache. The others note when a
person was seen, which no read here reads. Both services get the same requests: each client draws them from a seed of its own.

Writes requests.csv, a line for each request, and load.svg to the folder --out.
"""
import argparse
import csv
import http.client
import random
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

SIDES = ("before", "after")
# People of the sample graph. Clients ask about the first of them; the others become friends and strangers again.
PEOPLE = 2000
READS = {"introductions": 2, "suggestions": 1, "person": 1}
TITLES = {"before": "Neo4j alone", "after": "Hopcache before Neo4j"}
COLOURS = {"before": "#b45309", "after": "#1d4ed8"}
PERCENTILES = (50, 75, 90, 95, 99, 99.9)
FIELDS = ("side", "round", "at_s", "kind", "status", "ms", "cache")


def arguments():
    parser = argparse.ArgumentParser(description="load of the FastAPI example, with and without Hopcache")
    parser.add_argument("--before", required=True, metavar="URL", help="the service at Neo4j")
    parser.add_argument("--after", required=True, metavar="URL", help="the service at Hopcache")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each round, at each service")
    parser.add_argument("--rounds", type=int, default=3, help="that are drawn; one more warms both services")
    parser.add_argument("--people", type=int, default=500, help="how many people the clients ask about")
    parser.add_argument("--writes", type=float, default=1.0, help="percent of the requests")
    parser.add_argument("--friendships", type=float, default=100.0, help="percent of the writes; the others end no entry")
    parser.add_argument("--out", type=Path, default=Path("load"))
    return parser.parse_args()


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
        (kind,) = self.dice.choices(list(READS), READS.values())
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

    def __init__(self, options, requests):
        reads = [request for request in requests if request[3] != "write"]
        self.ms = sorted(float(request[5]) for request in reads)
        self.rates = [0] * (options.rounds * int(options.seconds))
        for _, turn, at, *_ in requests:
            if float(at) < int(options.seconds):
                self.rates[(turn - 1) * int(options.seconds) + int(float(at))] += 1
        self.per_second = sum(self.rates) / len(self.rates)
        self.hits = sum(request[6] == "hit" for request in reads) / len(reads)
        self.is_cached = any(request[6] for request in reads)
        self.failed = sum(request[4] >= 400 for request in requests)

    def told(self):
        shown = ", ".join(f"P{share:g} {percentile(self.ms, share):.1f} ms" for share in (50, 90, 99))
        hits = f"; {self.hits:.0%} hits" if self.is_cached else ""
        return f"{self.per_second:.0f} requests/s; reads {shown}{hits}; {self.failed} failed"


class Panel:
    """A plot with its frame: places values in a rectangle of the picture."""

    WIDTH, HEIGHT, TOP = 360, 220, 70

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


def picture(options, sides):
    most = max(max(side.rates) for side in sides.values())
    seconds = len(sides["before"].rates)
    columns = [(0, "0"), (1, f"{seconds} s")]
    rate = Panel(70, "requests/s, each second", columns, rows(most))
    slowest = max(percentile(side.ms, PERCENTILES[-1]) for side in sides.values())
    columns = list(zip(even(len(PERCENTILES)), (f"P{share:g}" for share in PERCENTILES)))
    time_of = Panel(520, "time of a read, ms", columns, rows(slowest))
    legend = []
    for place, (name, side) in enumerate(sides.items()):
        rate.line(COLOURS[name], zip(even(seconds), side.rates))
        of_reads = [percentile(side.ms, share) for share in PERCENTILES]
        time_of.line(COLOURS[name], zip(even(len(PERCENTILES)), of_reads))
        y = 340 + 20 * place
        legend.append(f'<path d="M70 {y - 4}h24" stroke="{COLOURS[name]}" stroke-width="3"/>')
        legend.append(f'<text x="102" y="{y}">{TITLES[name]}: {side.told()}</text>')
    writes = f"{options.writes:g} % writes ({options.friendships:g} % of them friendships)"
    about = f"{options.clients} clients, {writes}, {options.people} people by Zipf's law"
    return "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 910 380" font-family="sans-serif" font-size="12" fill="#333">',
        '<rect width="910" height="380" fill="#fff"/>',
        f'<text x="70" y="28" font-size="15">A FastAPI service: {about}</text>',
        *rate.parts, *time_of.parts, *legend, "</svg>\n",
    ])


def main():
    options = arguments()
    requests = []
    for turn in range(options.rounds + 1):
        for side in SIDES:
            requests.extend(ask_all(options, side, turn))
    options.out.mkdir(parents=True, exist_ok=True)
    with open(options.out / "requests.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([FIELDS, *requests])
    drawn = {side: Side(options, [each for each in requests if each[0] == side and each[1] > 0]) for side in SIDES}
    (options.out / "load.svg").write_text(picture(options, drawn), encoding="utf-8")
    for name, side in drawn.items():
        print(f"{TITLES[name]}: {side.told()}")
    print(f"{options.out / 'requests.csv'}: {len(requests)} requests; {options.out / 'load.svg'}")
    if any(side.failed for side in drawn.values()):
        raise SystemExit("load.py: requests failed")


main()
