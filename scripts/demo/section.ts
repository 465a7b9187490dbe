/** One part of the demo: what it says to the reader, and what went otherwise than it should. */
export interface Section {
  readonly text: string;
  readonly problems: readonly string[];
}
