// Figures for people.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A count. */
export const count = (value) => (value === undefined || value === null ? "–" : value >= 1e6 ? short.format(value) : whole.format(value));

/** A rate per second: three digits that matter. */
export const rate = (value) => {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  if (value < 0.01) return "< 0.01";
  return value < 10 ? value.toFixed(value < 1 ? 2 : 1) : count(value);
};

/** A share of 1 in percent; 100 % and 0 % only if it is all or nothing. */
export const percent = (share) => {
  if (share === undefined || share === null || Number.isNaN(share)) return "–";
  if (share > 0.999 && share < 1) return "> 99.9 %";
  return `${(share * 100).toFixed(share === 0 || share === 1 ? 0 : 1)} %`;
};

/** Three digits that matter, without zeros behind the point. */
const rounded = (value) => String(Number(value.toPrecision(3)));

/** A time in seconds. */
export const seconds = (value) => {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${rounded(value * 1000)} ms`;
  if (value < 120) return `${rounded(value)} s`;
  if (value < 7200) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`.replace(" 0 s", "");
  return `${(value / 3600).toFixed(1)} h`;
};

export const millis = (value) => (value === undefined || value === null ? "–" : seconds(value / 1000));

export const bytes = (value) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  while (value >= 1024 && place < units.length - 1) {
    value /= 1024;
    place += 1;
  }
  return `${place === 0 ? whole.format(value) : value.toFixed(1)} ${units[place]}`;
};

/** A time of day. */
export const clock = (at) => new Date(at).toLocaleTimeString("en-GB");

/** The end of a ring's number, as `hopcache status` shows it. */
export const epoch = (hex) => (hex ? hex.slice(-6) : "–");

/** A pattern as people write Cypher: a node sends its tokens with a space between each two. Names in backticks stay. */
export const pattern = (text) =>
  text.split("`").map((part, place) => (place % 2 === 1 ? part : tight(part))).join("`");

const tight = (part) => part
  .replace(/([([{]) +/g, "$1")
  .replace(/ +([)\]},;])/g, "$1")
  .replace(/ *\. */g, ".")
  .replace(/ *: */g, ":")
  .replace(/\{(\w+):/g, "{$1: ")
  .replace(/, (\w+):(?=[^,}]*\})/g, ", $1: ")
  .replace(/(<?) *- +-( *>)?/g, (_, left, right) => ` ${left}--${right ? ">" : ""}`)
  .replace(/(<?) *- +\[/g, " $1-[")
  .replace(/\] +-( +>)?/g, (_, right) => `]-${right ? ">" : ""}`)
  .replace(/\) +(<?-[-[])/g, ")$1")
  .replace(/(\]->?|-->?) +\(/g, "$1(")
  .replace(/\b([a-z]\w*) \(/g, "$1(");

/** The beginning of a long digest. */
export const digest = (hex) => (hex ? hex.slice(0, 12) : "–");
