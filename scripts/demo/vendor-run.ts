import type { VendorCall } from "./vendor-client.js";

/** One line of a table. */
export interface VendorRun {
  readonly name: string;
  readonly calls: number;
  /** Requests that the calls took, by what the vendor said. */
  readonly answered: number;
  readonly refused: number;
  readonly wallMs: number;
  /** The most that the vendor saw in any of its windows. */
  readonly peak: number;
}

/** Makes all calls in one turn of the event loop. The vendor knows the peak; it is asked when all are done. */
export async function makeCalls(
  name: string,
  calls: number,
  call: (account: string) => Promise<VendorCall>,
): Promise<Omit<VendorRun, "peak">> {
  const start = performance.now();
  const answers = (await Promise.all(Array.from({ length: calls }, () => call(name)))).flat();
  const wallMs = performance.now() - start;
  const count = (status: number): number => answers.filter((answer) => answer.status === status).length;
  return { name, calls, answered: count(200), refused: count(429), wallMs };
}
