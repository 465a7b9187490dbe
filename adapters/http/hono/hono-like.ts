/**
 * What is asked of a context of Hono 4.
 *
 * @public
 */
export interface HonoContextLike {
  readonly req: { readonly raw: Request; readonly matchedRoutes?: readonly HonoRouteLike[] };
  readonly env: unknown;
  readonly error: unknown;
  res: Response;
}

/**
 * What is asked of a route of Hono 4.
 *
 * @public
 */
export interface HonoRouteLike {
  readonly path: string;
  readonly method: string;
}
