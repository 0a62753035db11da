import numpy as np, torch, pytest
from evenhand.methods import aser as ours
from reference import aser
@pytest.mark.parametrize("n", [20, 40])
def test_near_neighbours_among_many(n):
    g=torch.Generator().manual_seed(0)
    h=5+torch.rand(n,160,generator=g)*0.02; y=torch.randint(3,(n,),generator=g)
    pts=5+torch.rand(4,160,generator=g)*0.02; t=torch.randint(3,(4,),generator=g)
    pairs=lambda a,b:list(zip(a.double().tolist(),b.tolist()))
    exp=[aser.shapley(pairs(h,y),p,3) for p in pairs(pts,t)]
    assert np.allclose(ours.shapley(h,y,pts,t,3),exp,atol=1e-5)
@pytest.mark.parametrize("n", [20, 40])
def test_self(n):
    g=torch.Generator().manual_seed(0)
    h=torch.rand(n,160,generator=g); h=torch.cat([h,h+1e-4*torch.randn(n,160,generator=g)]); 
    y=torch.arange(n).repeat(2); y[n:]=n  # near twin has another class
    v=ours.shapley(h,y,h[:10],y[:10],1)
    # nearest is itself: its value must be the largest of its row
    assert (v.argmax(1)==torch.arange(10)).all() and torch.allclose(v.sum(1),torch.ones(10))
