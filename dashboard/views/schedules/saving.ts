import { useState } from 'react'
import { type Client, isSignalboxError, type WireSchedule } from '../../../src/http/client/index.ts'
import { visible } from '../../kit/text/visible.ts'
import { toast } from '../../kit/toast.tsx'
import { changed } from '../../live/queries.ts'
import { go } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { schedulesWords } from '../../words/schedules.ts'
import { type Field, fieldOf, optionsOf, type Written } from './written.ts'

/** A fault, and its field; without a field, it concerns the whole form. */
export interface Wrong {
  readonly field?: Field | undefined
  readonly error: unknown
}

export interface Saving {
  readonly working: boolean
  readonly wrong: Wrong | undefined
  readonly save: (written: Written) => Promise<void>
}

/** Says it to the server; knows what was wrong with the last try. */
export function useSave(before: WireSchedule | undefined, onDone: () => void): Saving {
  const say = useWords(schedulesWords)
  const client = useClient()
  const [working, setWorking] = useState(false)
  const [wrong, setWrong] = useState<Wrong>()

  const trySave = async (written: Written): Promise<Wrong | undefined> => {
    const missing = (['name', written.by, 'kind'] as const).find((field) => written[field].trim() === '')
    if (missing !== undefined) return { field: missing, error: new Error(say('needed')) }
    try {
      const name = before?.name ?? written.name.trim()
      const options = optionsOf(written, before)
      // `set` creates or changes. A new schedule must not overwrite an existing one.
      if (before === undefined && (await isTaken(client, name))) {
        return { field: 'name', error: new Error(say('nameTaken')) }
      }
      await client.jobs.schedules.set(name, options)
      toast(say('saved', { name: visible(name) }))
      if (before === undefined) go('schedules', { name })
      return undefined
    } catch (error) {
      if (error instanceof SyntaxError) {
        return { field: 'payload', error: new Error(say('notJson', { why: error.message })) }
      }
      return {
        field: isSignalboxError(error, 'invalid_argument') ? fieldOf(error.message) : undefined,
        error,
      }
    }
  }

  const save = async (written: Written) => {
    setWorking(true)
    const found = await trySave(written)
    setWorking(false)
    setWrong(found)
    if (found !== undefined) return
    onDone()
    await changed('schedules', 'audit')
  }
  return { working, wrong, save }
}

/** A list is asked first: one that is not there is an error to the browser's console. */
async function isTaken({ jobs: { schedules } }: Client, name: string): Promise<boolean> {
  const { items, cursor } = await schedules.list({ limit: 500 })
  if (items.some((one) => one.name === name)) return true
  return cursor !== null && (await schedules.find(name)) !== undefined
}
