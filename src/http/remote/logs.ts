import type { AttemptLogUpdate, LogKeeper } from '../../jobs/index.ts'
import { type Client, JsonText, noteJob } from '../client/index.ts'
import { inParallel } from './parallel.ts'

/** Requests under way at once. */
const maxNoting = 8

/**
 * What handlers here say of their jobs, told to the server one attempt at a time. The client tries again for as long as
 * a call may take; what does not arrive by then is dropped, for nothing depends on it and newer words will follow.
 */
export function createRemoteLogs(client: Client): LogKeeper {
  async function tell({ jobId, token, attempt, progress, logs }: AttemptLogUpdate): Promise<void> {
    const plain = JSON.stringify({ token, attempt, logs })
    const body = progress === null ? plain : `${plain.slice(0, -1)},"progress":${progress}}`
    await client.call(noteJob, { params: { id: jobId }, body: new JsonText(body) })
  }
  return {
    async add(updates) {
      await inParallel(updates, maxNoting, (note) => tell(note).catch(() => undefined))
    },
    async progress(jobIds) {
      const jobs = await inParallel(jobIds, maxNoting, (id) => client.jobs.find(id))
      return jobs.flatMap((job) => {
        if (!job?.progress) return []
        const { at, attempt, ...progress } = job.progress
        return [{ jobId: job.id, attempt, progress: JSON.stringify(progress), at }]
      })
    },
    async logs(jobId, { limit, after }) {
      const cursor = after === undefined ? {} : { cursor: `${after.attempt}-${after.number}` }
      return (await client.jobs.logs(jobId, { limit, ...cursor })).items
    },
    // The server forgets them when it forgets jobs.
    prune: async () => 0,
  }
}
