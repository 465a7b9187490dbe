/** Shows a value in the message of a failed check. */
export function show(value: unknown): string {
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (Array.isArray(value)) return value.length === 0 ? "[]" : `[${value.map(show).join(", ")}]`;
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "bigint") return `${value}n`;
  return typeof value === "object" && value !== null ? "an object" : String(value);
}
