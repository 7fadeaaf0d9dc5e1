package authorizer

// ref names an item of a pool, from 1; none is no item.
type ref uint32

const none ref = 0

// pool keeps items in slabs, which do not move, and names them by numbers, by which they name each
// other. With pointers instead, Go's collector follows each, and waits for memory as often: with
// half a gigabyte of cards, and others swiped that were not among them, that took a third of both
// processors. What is free is taken again and not given back, for a cache that is full stays so: a
// pool keeps as much as it ever had.
type pool[T any] struct {
	slabs  []*slab[T]
	unused []ref
}

// slabItems is a power of two, for division is in each look-up.
const slabItems = 64

type slab[T any] [slabItems]T

func (p *pool[T]) at(r ref) *T { return &p.slabs[(r-1)/slabItems][(r-1)%slabItems] }

// take returns an empty item.
func (p *pool[T]) take() (ref, *T) {
	if len(p.unused) == 0 {
		p.slabs = append(p.slabs, &slab[T]{})
		for i, last := ref(0), ref(len(p.slabs)*slabItems); i < slabItems; i++ {
			p.unused = append(p.unused, last-i)
		}
	}
	r := p.unused[len(p.unused)-1]
	p.unused = p.unused[:len(p.unused)-1]
	return r, p.at(r)
}

// free empties an item, to be taken again.
func (p *pool[T]) free(r ref) {
	var empty T
	*p.at(r) = empty
	p.unused = append(p.unused, r)
}
