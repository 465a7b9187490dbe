import { type RateLimiter, withLease } from "headgate";

/** What the vendor said to one request. */
interface VendorAnswer {
  readonly status: number;
  readonly retryAfterMs: number;
}

/** What came of one call: the answers to all requests that it took. */
export type VendorCall = readonly VendorAnswer[];

/** One real request on an account of its own. */
async function ask(url: string, account: string): Promise<VendorAnswer> {
  const response = await fetch(url, { headers: { authorization: account } });
  await response.text();
  return { status: response.status, retryAfterMs: Number(response.headers.get("retry-after")) * 1000 };
}

/** One request, when the limiter lets it through; a 429 is what it is. */
export async function askOnce(limiter: RateLimiter, url: string, account: string): Promise<VendorCall> {
  return [await withLease(limiter, () => ask(url, account))];
}

/** Requests through the limiter until one is no 429; what to do after a 429 is the caller's. */
export async function askUntilDone(
  limiter: RateLimiter,
  url: string,
  account: string,
  backOff: (retryAfterMs: number) => Promise<void> | void,
): Promise<VendorCall> {
  const answers: VendorAnswer[] = [];
  for (;;) {
    const answer = await withLease(limiter, () => ask(url, account));
    answers.push(answer);
    if (answer.status !== 429) return answers;
    await backOff(answer.retryAfterMs);
  }
}
