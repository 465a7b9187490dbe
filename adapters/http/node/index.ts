import type { Admission } from "headgate/http";
import { guard, NodeRequestView } from "../node-guard.js";

/**
 * What is asked of a request of node:http or node:http2.
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
 * What is asked of a response of node:http or node:http2.
 *
 * @public
 */
export interface NodeResponseLike {
  statusCode: number;
  readonly headersSent: boolean;
  readonly writableEnded: boolean;
  readonly writableFinished: boolean;
  readonly destroyed: boolean;
  readonly socket: object | null;
  on(event: "close" | "finish", listener: () => void): unknown;
  writeHead(status: number): unknown;
  end(): unknown;
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
    guard(admission, new NodeRequestView(request, request, response), {
      admitted(passage) {
        const work = listener(request, response);
        passage?.noteWork(work);
      },
      failed() {
        if (response.headersSent) return;
        response.writeHead(500);
        response.end();
      },
    });
}
