/** A wait that others advise, in milliseconds; undefined when it is nothing to go by. */
export function adviceIn(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 && Number.isFinite(value) ? value : undefined;
}
