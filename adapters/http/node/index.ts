import type { Admission } from "headgate/http";
import { guard, NodeRequestView, type NodeResponse } from "../node-guard.js";

/**
 * What is asked of a request of node:http or node:http2; a listener whose parameters have types of their own gets those.
 *
 * @public
 */
export interface NodeRequestLike {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly socket: object;
}

/**
 * What is asked of a response of node:http or node:http2, and what most listeners need of it.
 *
 * @public
 */
export interface NodeResponseLike {
  statusCode: number;
  readonly headersSent: boolean;
  setHeader(name: string, value: string): unknown;
  writeHead(status: number, headers?: Record<string, string>): unknown;
  write(chunk: string | Uint8Array): unknown;
  end(chunk?: string | Uint8Array): unknown;
}

/**
 * Stands before a listener of node:http, or of node:http2's compatibility interface. The listener runs for admitted requests
 * only; what they hold goes back when the response is over.
 *
 * When a function of the admission's options throws, the answer is an empty 500, and `observe` is told.
 *
 * @example
 * ```ts
 * import { createServer } from "node:http";
 * import { concurrencyLimit } from "headgate/http";
 * import { nodeListener } from "headgate/http/node";
 *
 * const admission = concurrencyLimit({ maxConcurrent: 100, maxQueue: 50, queueTimeoutMs: 2000 });
 * const server = createServer(nodeListener(admission, (request, response) => response.end(`hello ${request.url}`)));
 * ```
 *
 * @param admission - What decides.
 * @param listener - What answers.
 *
 * @public
 */
export function nodeListener<Request extends NodeRequestLike, Response extends NodeResponseLike>(
  admission: Admission<Request>,
  listener: (request: Request, response: Response) => unknown,
): (request: Request, response: Response) => void {
  return (request, response) =>
    guard(admission, new NodeRequestView(request, request, response as unknown as NodeResponse), {
      admitted(passage) {
        const work = listener(request, response);
        // Somebody waits for the work now, so its rejection would not be told as one that nobody has handled.
        if (passage?.noteWork(work) === true) void work.then((value) => value);
      },
      failed() {
        if (!response.headersSent) response.writeHead(500, { "content-length": "0" });
        response.end();
      },
    });
}
