import type { NoteOptions } from '../../../jobs/index.ts'
import type * as wire from '../../contract/index.ts'
import type { Handler } from '../call.ts'

/** The routes of what attempts say of themselves, by their ids. */
export interface LogHandlers {
  readonly noteJob: Handler<typeof wire.noteJob>
  readonly jobLogs: Handler<typeof wire.jobLogs>
}

export const logHandlers: LogHandlers = {
  async noteJob({ params: { id }, body: { token, attempt, ...note }, jobs }) {
    await jobs.note({ id, token, ...(attempt === undefined ? {} : { attempt }) }, note as NoteOptions)
    return { body: { id } }
  },
  jobLogs: async ({ params: { id }, query, jobs }) => ({ body: await jobs.logs(id, query) }),
}
