/** Writes the rows of batches of tasks in a separate thread, raw: one batch is begun for each that is asked for or ended. */
import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { rawRows } from './raw-tasks.ts'

/** What it is asked: to begin a batch, or to end the eldest and begin another. It answers each when the rows are on disk. */
export type RowsQuestion = 'begin' | 'end'

const rows = rawRows(new DatabaseSync((workerData as string).replace(/^sqlite:/, '')))
const begun: (readonly string[])[] = []

parentPort!.on('message', (question: RowsQuestion) => {
  if (question === 'end') rows.end(begun.shift()!)
  begun.push(rows.begin())
  parentPort!.postMessage(question)
})
