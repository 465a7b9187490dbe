/**
 * What is asked of a request of Fastify 5.
 *
 * @public
 */
export interface FastifyRequestLike {
  readonly raw: object;
  readonly originalUrl: string;
  readonly routeOptions: { readonly url?: string | undefined; readonly config?: object | undefined };
}

/** What is asked of a reply of Fastify 5. */
export interface FastifyReplyLike {
  readonly raw: object;
  code(status: number): FastifyReplyLike;
  header(name: string, value: string): FastifyReplyLike;
  getHeader(name: string): unknown;
  send(payload?: unknown): unknown;
}

export interface FastifyRouteLike {
  readonly config?: { readonly headgate?: unknown };
  handler(this: unknown, request: FastifyRequestLike, ...rest: unknown[]): unknown;
}

/** What is asked of an instance of Fastify 5, whose own overloads would have to be met to the letter. */
export interface FastifyLike {
  addHook(name: string, hook: (...args: never[]) => void): unknown;
}
