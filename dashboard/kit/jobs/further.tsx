import type { ReactNode } from 'react'
import type { Further } from '../../live/further.ts'
import { jobsWords } from '../../words/jobs.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { Button } from '../button.tsx'
import { Problem } from '../problem.tsx'

export interface LookingFurtherProps {
  readonly further: Further
  /** How many are shown. */
  readonly found: number
}

/** How far a list has looked among very many jobs: while it does, with a way to stop it; then, with a way to go on. */
export function LookingFurther({ further, found }: LookingFurtherProps): ReactNode {
  const say = useWords(jobsWords)
  const format = useFormat()
  const { walked, canLookOn, error, lookOn, stop } = further
  if (walked === undefined) return null
  const { isLooking } = walked
  const values = { scanned: format.number(walked.scanned), found: format.number(found) }
  return (
    <>
      {error && <Problem error={error} onRetry={lookOn} />}
      <div className="further" aria-busy={isLooking}>
        {isLooking && <progress aria-label={say('looking', values)} />}
        {/* A screen reader announces the end, not every step. */}
        <span className="aside" role={isLooking ? undefined : 'status'}>
          {say(isLooking ? 'looking' : 'scanned', values)}
        </span>
        {isLooking && <Button onPress={stop}>{say('stopLooking')}</Button>}
        {canLookOn && error === undefined && (
          <Button icon="next" onPress={lookOn}>
            {say('lookOn')}
          </Button>
        )}
      </div>
    </>
  )
}
