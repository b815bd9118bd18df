import type { Contention } from '../../../contention/index.ts'
import type { Route } from '../../contract/index.ts'
import type { Api } from '../api.ts'

/**
 * Requests as commands of the recorder: `http.<route>`. What they ask of the store is their wait, the rest their hold, and
 * the time for which a claim waits for a job is neither.
 */
export interface RequestMeter {
  /** The same API, measured. */
  meter(api: Api): Api
  /** The request under way turned out to be one of this route. */
  isOf(route: Route | undefined): void
  /** The request under way waits for a job, and waits no longer. */
  rests(): void
  resumes(): void
}

/** A distant store or a slow disk makes every request wait; only unusual waits are reported. */
const warnMs = 1_000

export function createRequestMeter(
  contention: Contention,
  routes: readonly Pick<Route, 'id'>[],
): RequestMeter {
  const kindOf = (id: string) => contention.kind(`http.${id}`, { warnMs })
  const unknown = kindOf('none')
  const kinds = new Map(routes.map(({ id }) => [id, kindOf(id)]))
  return {
    meter(api) {
      if (!contention.enabled) return api
      return {
        answer: (incoming, requestId) =>
          contention.during(unknown, () => api.answer(incoming, requestId), requestId),
      }
    },
    isOf: (route) => contention.command.is((route && kinds.get(route.id)) ?? unknown),
    rests: () => contention.command.rest(),
    resumes: () => contention.command.resume(),
  }
}
