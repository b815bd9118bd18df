import { unfit } from '../job-errors.ts'
import { notForEach } from '../worker/handler-batch.ts'
import { type HandlerJob, withPayload } from '../worker/handler-job.ts'
import type { BatchHandler, BatchSpec, HandlerContext } from '../worker/worker-options.ts'
import { type Fit, tellIssues } from './schema-check.ts'

/**
 * A batch's handler whose jobs are looked at by their kind's schema first. One whose payload does not fit ends singly,
 * dead, and the handler is called with the others; when none fits, not at all.
 */
export function fitBatch<Output>(
  kind: string,
  spec: BatchHandler,
  ask: (payload: unknown) => Fit<Output> | Promise<Fit<Output>>,
): BatchSpec {
  async function check(job: HandlerJob): Promise<HandlerJob<Output> | undefined> {
    try {
      const fit = await ask(job.payload)
      if (fit.fits) return withPayload(job, fit.value)
      refuse(job, unfit(job.id, kind, tellIssues('payload', fit.issues, fit.issueCount)), true)
    } catch (error) {
      // The schema itself failed, which a later attempt may not see.
      refuse(job, error, false)
    }
    return undefined
  }

  return {
    ...spec,
    async runBatch(jobs: readonly HandlerJob[], context: HandlerContext) {
      const checked = await Promise.all(jobs.map(check))
      // While schemas were asked, their time may have come, or their leases be lost; then the work must not begin.
      context.signal.throwIfAborted()
      const fit = checked.filter((job) => job !== undefined)
      if (fit.length === 0) return undefined
      const returned: unknown = await spec.runBatch(fit, context)
      if (!Array.isArray(returned)) return returned
      // By position among those that the handler saw, so it is told by id.
      if (returned.length !== fit.length) throw notForEach(kind, returned.length, fit.length)
      return new Map(fit.map((job, index) => [job.id, returned[index] as unknown]))
    },
  }
}

function refuse(job: HandlerJob, error: unknown, dead: boolean): void {
  // Where the lease is lost there is nothing left to refuse.
  job.nack({ error, dead }).catch(() => undefined)
}
