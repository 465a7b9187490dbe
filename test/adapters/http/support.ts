import type { AdmissionRequest } from "headgate/http";

/** A handler that answers when it is told to. */
export interface Gated {
  /** Requests that it works on, in the order in which they came. */
  readonly running: string[];
  readonly handler: (request: Request) => Promise<Response>;
  /** Answers the oldest that it works on, by its path. */
  finish(answer?: Response | Error): void;
}

export function gated(): Gated {
  const open: { path: string; settle: (answer: Response | Error) => void }[] = [];
  return {
    get running() {
      return open.map(({ path }) => path);
    },
    handler: (request) =>
      new Promise((resolve, reject) => {
        open.push({
          path: new URL(request.url).pathname,
          settle: (answer) => (answer instanceof Error ? reject(answer) : resolve(answer)),
        });
      }),
    finish(answer = new Response(null)) {
      const first = open.shift();
      if (first === undefined) throw new Error("nothing is running");
      first.settle(answer);
    },
  };
}

export function request(path = "/", init?: RequestInit): Request {
  return new Request(`http://localhost${path}`, init);
}

/** A request as admission sees it, from an address, with headers. */
export function seen(
  remoteAddress: string | undefined,
  headers: Record<string, string> = {},
): AdmissionRequest {
  return {
    method: "GET",
    path: "/",
    route: undefined,
    remoteAddress,
    header: (name) => headers[name.toLowerCase()],
    raw: undefined,
  };
}

/** Random numbers that are the same in every run (Lehmer's generator). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}
