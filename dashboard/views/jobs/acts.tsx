import { type ReactNode, useState } from 'react'
import type { WireJob } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { jobsWords } from '../../words/jobs.ts'
import { useWords } from '../../words/language.tsx'
import { MatchingDialog, SelectedDialog } from './bulk-dialog.tsx'
import { type Act, acts } from './bulk-states.ts'

export interface ActsProps {
  readonly selected: readonly WireJob[]
  readonly onDone: () => void
  /** The filters as one search. */
  readonly search: string
  /** The state that the filters name. */
  readonly filtered?: WireJob['state'] | undefined
}

/** What can be done to the jobs that are selected, or else to everything that matches. */
export function Acts({ selected, onDone, search, filtered }: ActsProps): ReactNode {
  const say = useWords(jobsWords)
  const [act, setAct] = useState<Act>()
  const isSome = selected.length > 0
  const close = () => setAct(undefined)
  return (
    <div className="toolbar acts">
      <span className="aside">
        {isSome ? say('selected', { count: selected.length }) : say('everything')}
      </span>
      {acts.map((one) => (
        <Action
          key={one}
          scope={isSome && one !== 'delete' ? 'work' : 'admin'}
          look={one === 'delete' ? 'danger' : 'plain'}
          onPress={() => setAct(one)}
        >
          {say(one)}
        </Action>
      ))}
      {act && isSome && <SelectedDialog act={act} jobs={selected} onDone={onDone} onClose={close} />}
      {act && !isSome && <MatchingDialog act={act} search={search} filtered={filtered} onClose={close} />}
    </div>
  )
}
