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

/** A time in seconds. */
export const seconds = (value) => {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${(value * 1000).toPrecision(3).replace(/\.?0+$/, "")} ms`;
  return `${value.toPrecision(3).replace(/\.?0+$/, "")} s`;
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

/** The beginning of a long digest. */
export const digest = (hex) => (hex ? hex.slice(0, 12) : "–");
