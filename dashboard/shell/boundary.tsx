import { Component, type ReactNode, useEffect } from 'react'
import { Button } from '../kit/button.tsx'
import { Problem } from '../kit/problem.tsx'
import { useLiveness } from '../live/connection.ts'
import { useWords } from '../words/language.tsx'
import { shellWords } from '../words/shell.ts'
import { PartMissing } from './part.ts'

interface Caught {
  readonly error: unknown
}

/** Contains a view's error in that view. A missing part of the page needs a reload. */
export class Boundary extends Component<
  { readonly children: ReactNode },
  { readonly caught: Caught | undefined }
> {
  override state: { readonly caught: Caught | undefined } = { caught: undefined }

  static getDerivedStateFromError(error: unknown): { readonly caught: Caught } {
    return { caught: { error } }
  }

  override render(): ReactNode {
    const { caught } = this.state
    return caught === undefined ? this.props.children : <Failed error={caught.error} />
  }
}

function Failed({ error }: Caught): ReactNode {
  const say = useWords(shellWords)
  const { timesBack } = useLiveness()
  // All filters are in the address, so a reload loses nothing.
  const isBack = error instanceof PartMissing && timesBack > error.timesBack
  useEffect(() => {
    if (isBack) location.reload()
  }, [isBack])
  return (
    <>
      <h1>{say('viewFailed')}</h1>
      <Problem error={error} />
      <Button onPress={() => location.reload()}>{say('reload')}</Button>
    </>
  )
}
